"""Files that are seen as they were or whole."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def is_stream(target: Path) -> bool:
    """Whether a target is a pipe, a device or the like: it is written to, and nothing is put in its place."""
    return target.exists() and not target.is_file() and not target.is_dir()


@contextmanager
def whole_file(target: Path, mode: int | None = None) -> Iterator[Path]:
    """A path to write under, so that the target is seen as it was or whole, never in part.

    Where the target is a link, the file that it leads to is written. A pipe or device is the path itself: what is
    written goes straight through. `mode` are the permissions of the file, in place of those of the file before it, or
    of new files. Raises `OSError`.
    """
    if is_stream(target):
        yield target
        return
    real = _real(target)
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:48]}.", dir=real.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(_mode_of(real) if mode is None else mode)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(target: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file as `whole_file` says."""
    with whole_file(target, mode) as path:
        path.write_bytes(content)


def _real(target: Path) -> Path:
    """The file that a path leads to over all links, whether there is one or not."""
    try:
        return target.resolve()
    except RuntimeError as error:  # as Python before 3.13 tells of links that lead to each other
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(target)) from error


def _mode_of(path: Path) -> int:
    """Permissions of the file that is replaced; of a new one, those that the process gives to new files."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
