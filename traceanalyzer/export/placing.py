"""Files that are seen whole or not at all."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.errors import ExportError, UsageError
from traceanalyzer.files import is_stream, whole_file


def refuse_to_replace(files: list[Path], force: bool) -> None:
    """Raises `UsageError` where files exist, unless that is allowed by `force`. Pipes and devices are not replaced."""
    if not force and (there := [str(file) for file in files if file.exists() and not is_stream(file)]):
        raise UsageError(f"{', '.join(there[:3])}{' ...' if len(there) > 3 else ''}: exists; --force replaces it")


@contextmanager
def placed(file: Path, *, seeks: bool = False) -> Iterator[Path]:
    """A path to write under, as `whole_file` gives it; who `seeks` in the file never gets a pipe or device, which is
    written once the file is whole. Raises `ExportError`.
    """
    try:
        with whole_file(file) as path:
            if seeks and is_stream(path):
                with tempfile.TemporaryDirectory() as folder:
                    yield Path(folder) / "whole"
                    with (Path(folder) / "whole").open("rb") as whole, path.open("wb") as stream:
                        shutil.copyfileobj(whole, stream)
            else:
                yield path
    except OSError as error:
        raise ExportError(f"{file}: cannot be written ({error.strerror or error})") from error


def size_of(file: Path) -> int | None:
    """Bytes of a file that was written; None of a pipe or device, or where it was taken away meanwhile."""
    try:
        return None if is_stream(file) else file.stat().st_size
    except OSError:
        return None
