"""How long calls of operators and modules took, on the host and on the devices: parts of the pass `ops`."""
