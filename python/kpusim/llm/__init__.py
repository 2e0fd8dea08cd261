"""Language models without weights: tokens per second out of a configuration.

The data's way: ``configuration`` reads a configuration, of which ``families`` make an ``architecture``;
``work`` says which pieces a step takes; ``layers`` writes a piece as ONNX, node by node with ``graph``, in
the types of ``formats``; ``running`` simulates pieces in processes of their own (``worker``); ``composing``
adds them up, ``report`` tells, ``command`` is ``kpusim llm``.
"""

from kpusim.llm.composing import Estimate, Row, estimate

__all__ = ["Estimate", "Row", "estimate"]
