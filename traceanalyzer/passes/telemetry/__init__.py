"""What telemetry says: canonical metrics of each device, patterns in time, throttling, errors, processes, alignment."""
