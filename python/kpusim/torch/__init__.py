"""PyTorch models on a simulated device: a backend of torch.compile, and estimates of modules without storage.

>>> import torch, kpusim.torch  # doctest: +SKIP
>>> fast = torch.compile(model.eval(), backend="kpusim", options={"platform": "swkpu-v1"})  # doctest: +SKIP
>>> with torch.no_grad():  # doctest: +SKIP
...     y = fast(x)
>>> kpusim.torch.last_run().cycles  # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from kpusim.errors import UserError

#: The oldest with which all tests were run. Small networks work with 2.5.1 and 2.6.0, ResNet-18 fails in
#: their exporter to ONNX; that of 2.4.1 takes no exported programs.
OLDEST = (2, 9)
if tuple(int(part) for part in str(torch.__version__).split(".")[:2]) < OLDEST:
    raise UserError(
        f"PyTorch {torch.__version__} is too old: its exporter to ONNX lacks networks that are taken here. "
        "Fix: pip install 'torch>=2.9'."
    )

from kpusim.torch.backend import Graph, Options, last_run  # noqa: E402
from kpusim.torch.breaks import break_text  # noqa: E402
from kpusim.torch.meta import estimate  # noqa: E402

__all__ = ["backend", "estimate", "last_run"]

# dynamo looks into torch.nn.LSTM, GRU and RNN only if it is told to, and asks before it calls a backend
torch._dynamo.config.allow_rnn = True


def backend(
    module: torch.fx.GraphModule, examples: Sequence[Any], *, options: Mapping[str, Any] | None = None
) -> Callable[..., Any]:
    """Compile a graph of dynamo: the backend that ``torch.compile(model, backend="kpusim")`` finds.

    Parameters
    ----------
    module : torch.fx.GraphModule
        The graph; parameters and buffers may be lifted.
    examples : sequence
        Its arguments.
    options : mapping, optional
        ``platform``: name, file or Platform, ``swkpu-v1`` by default. ``precision``: f32, fp16, bf16, int8,
        fp8; by default the widest float type of the device. ``mode``: ``values+timing`` or ``functional``.
        ``calibration``: samples for int8 and fp8: tensors, tuples of them where there are several inputs, a
        folder, or ``random:SEED``. ``keep``, ``accuracy``, ``wide_share``, ``calibration_method`` and
        ``report_accuracy``: mixes of precisions, as of :class:`kpusim.precision.Mixing`.
        ``fallback="eager"``: what cannot be compiled is left to PyTorch, with a warning.

    Returns
    -------
    callable
        Compiles at its first call for each set of shapes, and anew when weights have changed.

    Raises
    ------
    UserError
        When the result is called: for options that are none, graph breaks, training mode, and operators that
        cannot be compiled, with their source lines.
    """
    try:
        graph = Graph(module, examples, Options.of(options))
    except UserError as error:
        text = str(error)
        return refuser(lambda: text)
    reason = getattr(module, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break and graph.options.fallback is None:
        return refuser(lambda: break_text(reason))
    return graph


def refuser(text: Callable[[], str]) -> Callable[..., Any]:
    """Make a function that raises when it is called: errors then come without the wrapping of dynamo."""

    def refuse(*arguments: Any) -> Any:
        raise UserError(text())

    return refuse
