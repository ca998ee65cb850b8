"""Files that are seen as they were or whole."""

import os
import tempfile
from pathlib import Path


def write_whole(target: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file so that it is seen as it was or whole, never in part. A device or pipe is just written to.

    `mode` are its permissions, in place of those of the file before it, or of new files.
    """
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return
    real = target.resolve()
    handle, name = tempfile.mkstemp(prefix=f".{real.name[:64]}.", dir=real.parent)
    temporary = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        temporary.chmod(_mode_of(real) if mode is None else mode)
        temporary.replace(real)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _mode_of(path: Path) -> int:
    """Permissions of the file that is replaced; of a new one, those that the process gives to new files."""
    if path.exists():
        return path.stat().st_mode & 0o777
    mask = os.umask(0)
    os.umask(mask)
    return 0o666 & ~mask
