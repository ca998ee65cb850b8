"""Tables of a store and results of passes as files for other programs. A format is one entry of `formats.FORMATS`."""
