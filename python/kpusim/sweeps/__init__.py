"""Sweeps: programs on many machines, their table, their front, and which knob matters.

The data's way: ``reading`` and ``spec`` make a checked sweep of a file or a call; ``designs`` numbers its
machines; ``running`` decides what is evaluated (``auto`` and ``search`` choose), by ``pool`` or ``cluster``,
whose workers ``evaluate`` points; ``journal`` keeps each outcome; ``table`` judges them. ``results`` reads a
finished sweep for ``knobs``, ``report`` and ``command``.
"""
