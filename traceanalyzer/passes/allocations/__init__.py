"""What holds the memory of a device, and what makes it grow: parts of the pass `memory`."""
