"""`python -m traceanalyzer` is the command `traceanalyzer`."""

from traceanalyzer.cli.start import main

if __name__ == "__main__":
    main()
