"""What limits kernels: rules over measured, sampled and estimated throughputs, and peaks of devices."""
