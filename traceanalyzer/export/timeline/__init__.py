"""One timeline of all ranks on one clock, as a Chrome trace for Perfetto and chrome://tracing."""
