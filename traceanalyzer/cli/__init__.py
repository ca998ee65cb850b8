"""The command line: wiring and text only. What it prints comes from `traceanalyzer.passes`."""
