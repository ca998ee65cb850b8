"""Where the command starts: its help is printed at once, everything else needs the command line proper."""

import os
import sys

_WIDTH = 80  # columns from which on no line of the help is broken


def main() -> None:
    """Entry point of the installed command. Does not return."""
    if sys.argv[1:] not in ([], ["-h"], ["--help"]) or not _printed_help():
        # Read when numpy is loaded: nothing here multiplies matrices, and threads for that spin while they wait.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        from traceanalyzer.cli.main import main as run_and_exit

        run_and_exit()


def _printed_help() -> bool:
    """Whether the help as it stands was what was wanted, and could be printed."""
    if sys.stdout is None or "_TRACEANALYZER_COMPLETE" in os.environ or "COLUMNS" in os.environ:
        return False
    try:
        if os.isatty(1) and os.get_terminal_size(1).columns < _WIDTH:
            return False
        from traceanalyzer.cli.help_text import HELP

        return os.write(1, HELP.encode("ascii")) == len(HELP)
    except OSError:  # the command line proper says what is wrong
        return False
