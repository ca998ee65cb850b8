"""The store: one DuckDB file, written atomically by one process at a time, read by any number."""
