"""Where stores lie: the one that people name, and the cache of those made for raw files."""

import os
from pathlib import Path


def default_store() -> Path:
    """`$TRACEANALYZER_DB`, else `traceanalyzer.duckdb` in the current folder."""
    return Path(os.environ.get("TRACEANALYZER_DB") or "traceanalyzer.duckdb")


def cache_folder() -> Path:
    """Folder of the stores of raw files: `$TRACEANALYZER_CACHE`, else the user's cache folder."""
    if own := os.environ.get("TRACEANALYZER_CACHE"):
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "traceanalyzer"
