"""Reports as nsys writes them (.nsys-rep, .qdrep): a format of its own, which only nsys itself reads.

If nsys is installed the report is exported to a temporary file; else the user is told the command.
"""

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.errors import SourceError

# Older versions refuse options that they do not know; the first set that works is taken.
_OPTIONS = (
    ("--lazy=false", "--include-blobs=true", "--include-json=true"),
    ("--include-blobs=true", "--include-json=true"),
    ("--include-json=true",),
    (),
)


@contextmanager
def exported(path: Path, original: Path) -> Iterator[tuple[Path, str]]:
    """Export a report to a temporary SQLite file; yields its path and the version of nsys that did it.

    Raises `SourceError` with the command to run where nsys is not installed, or cannot export the report.
    """
    nsys = shutil.which("nsys")
    by_hand = "nsys export --type sqlite --include-blobs=true --include-json=true -o out.sqlite"
    hint = f"run: {by_hand} {original.name}"
    if nsys is None:
        raise SourceError(original, "an nsys report that was not exported, and nsys is not installed here", hint)
    with tempfile.TemporaryDirectory(prefix="traceanalyzer-") as folder:
        target = Path(folder) / "export.sqlite"
        why = ""
        for options in _OPTIONS:
            target.unlink(missing_ok=True)
            command = [nsys, "export", "--type", "sqlite", "--force-overwrite=true", *options]
            command += ["-o", str(target), str(path.resolve())]
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
            if done.returncode == 0 and target.is_file():
                yield target, _version(nsys)
                return
            why = _reason(done.stderr or done.stdout)
        raise SourceError(original, f"nsys could not export the report ({why})", "use an nsys as new as the report's")


def _version(nsys: str) -> str:
    done = subprocess.run([nsys, "--version"], capture_output=True, text=True, errors="replace", check=False)
    found = re.search(r"\d+(?:\.\d+)+", done.stdout)
    return found.group() if found else "unknown"


def _reason(output: str) -> str:
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    return lines[-1][:160] if lines else "it said nothing"
