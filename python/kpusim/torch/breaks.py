"""Graph breaks: where dynamo cannot make one graph of a model, all of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch

from kpusim.torch.capture import quiet

WRAPPERS = ("compile_wrapper", "_fn")  #: dynamo's function around what the user calls, by version


def break_text(first: Any) -> str:
    """Say why dynamo stopped, and where; every break, if the call can be seen from here.

    Parameters
    ----------
    first : torch._dynamo.output_graph.GraphCompileReason
        The break that a backend was told of.
    """
    places = list(dict.fromkeys(map(place_text, [first, *breaks_of_call()])))
    return (
        f"the model does not become one graph: {'; '.join(places)}. Fix: remove what breaks it, or give "
        "options={'fallback': 'eager'}."
    )


def place_text(reason: Any) -> str:
    """Return a break: its reason and the source line."""
    at = next((f" ({frame.filename}:{frame.lineno})" for frame in reversed(reason.user_stack)), "")
    return str(reason.reason).splitlines()[0].rstrip(".") + at


def breaks_of_call() -> list[Any]:
    """The breaks of the call under way: what is called is captured once more, part after part, by PyTorch."""
    call = called()
    if call is None:
        return []
    function, arguments, keywords = call
    reasons: list[Any] = []

    def note(module: torch.fx.GraphModule, examples: list[Any]) -> Callable[..., Any]:
        reason = getattr(module, "compile_subgraph_reason", None)
        if reason is not None and reason.graph_break:
            reasons.append(reason)
        forward: Callable[..., Any] = module.forward
        return forward

    try:
        with quiet(), torch.no_grad():
            torch._dynamo.optimize(note)(function)(*arguments, **keywords)
    except Exception:  # of the model itself: those that were found count
        return reasons
    return reasons


def called() -> tuple[Any, tuple[Any, ...], dict[str, Any]] | None:
    """Return what the user called through torch.compile, with its arguments: dynamo's frame holds them."""
    frame = sys._getframe()
    found = None
    while frame is not None:
        names = frame.f_locals
        if frame.f_code.co_name in WRAPPERS and {"fn", "args", "kwargs"} <= names.keys():
            found = names["fn"], names["args"], names["kwargs"]
        frame = frame.f_back  # type: ignore[assignment]
    return found
