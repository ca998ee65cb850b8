"""Everything that can be wrong with what we are given, as one tree of exceptions.

TraceAnalyzerError
├── SourceError            a file cannot be read as a trace
│   └── UnknownFormatError no reader recognises it
├── StoreError             the store cannot be opened, read or written
│   ├── SchemaVersionError it was written by another version of the schema
│   └── StoreBusyError     another process is writing it
├── ExportError            a file cannot be written
└── UsageError             the question cannot be asked like this

The text of each is one line that says what is wrong and what to do next; the command line prints it and exits with 2.
"""

import re

_LINE_ENDS = re.compile(r"\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\s*")


class TraceAnalyzerError(Exception):
    """Base of all errors that are about the input, not about a fault of ours."""

    def __str__(self) -> str:
        """The text in one line, whatever the names and messages in it hold."""
        return _LINE_ENDS.sub(" ", super().__str__())


class SourceError(TraceAnalyzerError):
    """A file cannot be read as the trace that it looks like."""

    def __init__(self, path: object, why: str, hint: str = "") -> None:
        super().__init__(f"{path}: {why}" + (f"; {hint}" if hint else ""))


class UnknownFormatError(SourceError):
    """No reader recognises the file."""


class StoreError(TraceAnalyzerError):
    """The store cannot be opened, read or written."""


class SchemaVersionError(StoreError):
    """The store was written with another version of the schema."""


class StoreBusyError(StoreError):
    """Another process is writing the store."""


class ExportError(TraceAnalyzerError):
    """A file for other programs cannot be written."""


class UsageError(TraceAnalyzerError):
    """The question cannot be asked like this."""
