"""Pure numpy: intervals, nesting, sweeps. No I/O, no engine."""
