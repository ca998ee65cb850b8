"""Files that are seen whole or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.errors import ExportError, UsageError


def refuse_to_replace(files: list[Path], force: bool) -> None:
    """Raises `UsageError` where files exist, unless that is allowed by `force`."""
    if not force and (there := [str(file) for file in files if file.exists()]):
        raise UsageError(f"{', '.join(there[:3])}{' ...' if len(there) > 3 else ''}: exists; --force replaces it")


@contextmanager
def placed(file: Path) -> Iterator[Path]:
    """A temporary name to write under; the whole file is put in place at the end. Raises `ExportError`."""
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        yield temporary
        temporary.replace(file)
    except OSError as error:
        raise ExportError(f"{file}: cannot be written ({error.strerror or error})") from error
    finally:
        temporary.unlink(missing_ok=True)
