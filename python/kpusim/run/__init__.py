"""Results of one execution: outputs, statistics, events, pictures, and two of them compared."""

from kpusim.run.difference import Difference, diff
from kpusim.run.run import Run

__all__ = ["Difference", "Run", "diff"]
