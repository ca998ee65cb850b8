"""Stable names in place of hosts, paths and kernels, and the key that tells what they stand for."""

import hashlib
import hmac
import secrets
from pathlib import Path
from typing import Annotated

import msgspec

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.files import write_whole

PRIVATE = 0o600
_DIGITS = 8
_SECRET_BYTES = 16


class _Key(msgspec.Struct, forbid_unknown_fields=True):
    """What is in the file beside the page: the secret, and the name behind each pseudonym."""

    secret: Annotated[str, msgspec.Meta(min_length=2 * _SECRET_BYTES, pattern="^[0-9a-f]+$")]
    names: dict[str, str] = {}


class Pseudonyms:
    """Stable names in place of others: the same name always has the same one under the same secret.

    The key, a file beside the page that is not meant to leave, holds the secret and what each pseudonym stands for. A
    key that is there is used again, so that pages made later use the same pseudonyms. Raises `TraceAnalyzerError` where
    the key is not one.
    """

    def __init__(self, key: Path) -> None:
        self.key = key
        before = self._read()
        self._secret = secrets.token_hex(_SECRET_BYTES) if before is None else before.secret
        self._names = {} if before is None else before.names
        self._known: dict[tuple[str, str], str] = {}

    def of(self, kind: str, name: str) -> str:
        """The pseudonym of a name of a kind: `kernel-1f0c9a7e`."""
        known = self._known.get((kind, name))
        if known is None:
            known = self._known[kind, name] = self._free(kind, name)
            self._names[known] = _storable(name)
        return known

    def save(self) -> None:
        """Write the key, for its owner alone. To be called before the page is written, which is of no use without it.

        What another report put into the key meanwhile stays in it. Raises `TraceAnalyzerError` where the file became
        another key, or none, and `OSError` where it cannot be written.
        """
        meanwhile = self._read()
        if meanwhile is not None and meanwhile.secret != self._secret:
            raise TraceAnalyzerError(f"{self.key}: another report made a key there meanwhile; make this one again")
        names = self._names if meanwhile is None else meanwhile.names | self._names
        ordered = _Key(self._secret, dict(sorted(names.items())))
        content = msgspec.json.format(msgspec.json.encode(ordered), indent=1) + b"\n"
        try:
            write_whole(self.key, content, PRIVATE)
        except OSError as error:
            raise OSError(error.errno, f"cannot be written ({error.strerror or error})", str(self.key)) from error

    def _free(self, kind: str, name: str) -> str:
        said = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        digest = hmac.new(self._secret.encode(), said, hashlib.sha256).hexdigest()
        # Longer where two names would have the same one.
        tried = (f"{kind}-{digest[:digits]}" for digits in range(_DIGITS, len(digest) + 1, 4))
        return next(each for each in tried if self._names.get(each, _storable(name)) == _storable(name))

    def _read(self) -> _Key | None:
        """The key that is there; None where there is none."""
        try:
            return msgspec.json.decode(self.key.read_bytes(), type=_Key)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, UnicodeError) as error:
            why = error.strerror if isinstance(error, OSError) else str(error)
            raise TraceAnalyzerError(f"{self.key}: is not a key of pseudonyms ({why}); move it away") from error


def _storable(name: str) -> str:
    """The name as JSON can hold it."""
    return name.encode("utf-8", "backslashreplace").decode()
