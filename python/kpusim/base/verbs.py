"""Verbs of the command that are in this package: their errors and exit codes are those of ``kpusim``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from kpusim.errors import InternalError, KpusimError, SimulationError

OK, BAD_INPUT, FAILED, MISMATCH, BUG, INTERRUPTED = 0, 1, 2, 3, 70, 130


def exit_code(run: Callable[[list[str]], int], arguments: Sequence[str] | None) -> int:
    """Run a verb, and print its error.

    Parameters
    ----------
    run : callable
        The verb, of its words.
    arguments : sequence of str, optional
        The words; without them those of the command line.

    Returns
    -------
    int
        What the process ends with.
    """
    try:
        return run(list(sys.argv[1:] if arguments is None else arguments))
    except SimulationError as error:
        return _told(error, FAILED)
    except InternalError as error:
        return _told(error, BUG)
    except KpusimError as error:
        return _told(error, BAD_INPUT)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        return BAD_INPUT


def _told(error: KpusimError, code: int) -> int:
    text = str(error)
    print(text if ": error: " in text.split("\n", 1)[0] else f"error: {text}", file=sys.stderr)
    return code
