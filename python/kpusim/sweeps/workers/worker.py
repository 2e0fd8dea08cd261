"""A worker process of a sweep: evaluates what comes through its socket, until that closes."""

from __future__ import annotations

import os
import signal
import sys
from multiprocessing.connection import Connection

from kpusim.sweeps.workers.evaluate import Evaluator


def work(connection: Connection) -> None:
    """Answer tasks in their order. Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    evaluate = Evaluator()
    try:
        while True:
            task = connection.recv()
            connection.send(evaluate(task))
    except (EOFError, ConnectionError):
        pass  # the parent is gone


if __name__ == "__main__":
    work(Connection(int(sys.argv[1])))
    sys.stdout.flush()
    os._exit(0)  # without the destructors of what was kept, which take time
