"""Each fix that errors of kpusim.torch advise works: each case makes a mistake, and follows the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim.torch
import pytest
import torch
from fixes import Case, check_complete, play
from kpusim import kpu
from torch import Tensor, nn

X = torch.linspace(-1, 1, 12).reshape(3, 4)
Function = Callable[..., Any]


def called(function: Function, *arguments: Any, **options: Any) -> Any:  # noqa: ANN401
    """Return a function on the device, without gradients; nothing is left of what was captured before."""
    torch._dynamo.reset()
    given = {"platform": "tile32", **options}
    with torch.no_grad():
        return torch.compile(function, backend="kpusim", options=given)(*(arguments or (X,)))


def plain(x: Tensor) -> Tensor:
    """Nothing is wrong with it."""
    return torch.relu(x) * 2


def breaks(x: Tensor) -> Tensor:
    """Not one graph."""
    y = torch.relu(x)
    print("between")
    return y * 2


def bessel(x: Tensor) -> Tensor:
    """Call what ONNX has not."""
    return torch.special.bessel_j1(x)


def both(x: Tensor, y: Tensor) -> Tensor:
    """Multiply two tensors."""
    return x @ y.T


def estimated(module: nn.Module | None = None, **options: Any) -> Any:  # noqa: ANN401
    """Return an estimate of a module, by default of one without storage."""
    with torch.device("meta"):
        module = nn.Linear(4, 4).eval() if module is None else module
        return kpusim.torch.estimate(module, torch.empty(3, 4), platform="tile32", **options)


class Module(nn.Module):
    """A function as a module."""

    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Any:  # noqa: ANN401
        """Call it."""
        return self.function(x)


class Counter(nn.Module):
    """Its state is a buffer, or an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("state", torch.zeros(3, 4))

    def forward(self, x: Tensor) -> Tensor:
        """Change it."""
        self.state.add_(x)
        return self.state * 2


def counted(x: Tensor, state: Tensor) -> Tensor:
    """Return the same with the state as an input."""
    return (state + x) * 2


def chosen(x: Tensor) -> Tensor:
    """Return a branch by values."""
    return x * 2 if x.sum() > 0 else x


def chosen_without_branch(x: Tensor) -> Tensor:
    """Return the same without."""
    return torch.where(x.sum() > 0, x * 2, x)


def gradient(follow: bool) -> None:
    """A gradient is asked for, or the model is called without."""
    torch._dynamo.reset()
    model = torch.compile(plain, backend="kpusim", options={"platform": "tile32"})
    if follow:
        with torch.no_grad():
            model(X)
    else:
        model(X.clone().requires_grad_()).sum().backward()


def in_int8(samples: list[Any]) -> Any:  # noqa: ANN401
    """A call with samples."""
    return called(both, X, X + 1, precision="int8", calibration=samples)


def linear() -> nn.Module:
    """Return a layer, seen by torch.compile as a module."""
    return nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))


def compiled(model: Any, x: Tensor | None = X, **options: Any) -> kpu.KPUProgram:  # noqa: ANN401
    """Compile with the compiler of the client."""
    return kpu.KPUCompiler(**options).compile(model, example_inputs=None if x is None else (x,))


def saved(model: object) -> str:
    """Return a file of torch.save."""
    torch.save(model, "model.pt")
    return "model.pt"


def exported() -> str:
    """Return a file of torch.export.save."""
    torch.export.save(torch.export.export(Module(plain), (X,)), "model.pt2")
    return "model.pt2"


def damaged() -> str:
    """Return a file that was cut."""
    Path("cut.pt").write_bytes(Path(saved(nn.Linear(4, 4))).read_bytes()[:300])
    return "cut.pt"


CASES = [
    Case("torch/backend.py", "Fix: see help(kpusim.torch.backend) for the options.",
         lambda: called(plain, platfrom="tile32"),
         [lambda: help(kpusim.torch.backend), lambda: called(plain, platform="tile32")]),
    Case("torch/backend.py", "Fix: call the model under torch.no_grad().",
         lambda: gradient(False), [lambda: gradient(True)]),
    Case("torch/backend.py", "Fix: values+timing or functional.", lambda: called(plain, mode="timing"),
         [lambda: called(plain, mode="values+timing"), lambda: called(plain, mode="functional")]),
    Case("torch/backend.py", "Fix: 'eager', or leave it out.", lambda: called(plain, fallback="inductor"),
         [lambda: called(plain, fallback="eager"), lambda: called(plain)]),
    Case("torch/breaks.py", "Fix: remove what breaks it, or give options={'fallback': 'eager'}.",
         lambda: called(breaks),
         [lambda: called(plain), lambda: called(breaks, fallback="eager")]),
    Case("torch/capture.py",
         "Fix: replace these operators, or leave them to PyTorch: torch.compile with "
         "options={'fallback': 'eager'}.",
         lambda: called(bessel),
         [lambda: called(torch.sin), lambda: called(bessel, fallback="eager")]),
    Case("torch/capture.py",
         "Fix: replace these operators, or leave them to PyTorch: torch.compile with "
         "options={'fallback': 'eager'}.",
         lambda: compiled(Module(bessel)),
         [lambda: compiled(Module(torch.sin)), lambda: called(Module(bessel), fallback="eager")]),
    Case("torch/capture.py", "Fix: call model.eval() before; give state as inputs.",
         lambda: called(linear().train()),
         [lambda: called(linear().eval())]),
    Case("torch/capture.py", "Fix: call model.eval() before; give state as inputs.",
         lambda: compiled(Counter()), [lambda: called(counted, X, X)]),
    Case("torch/capture.py", "Fix: make shapes and branches independent of the values of tensors.",
         lambda: compiled(Module(chosen)),
         [lambda: compiled(Module(chosen_without_branch))]),
    Case("torch/meta.py", "Fix: leave them out.", lambda: estimated(fallback="eager"), [estimated]),
    Case("torch/meta.py",
         "Fix: make it under torch.device('meta'), or give module.to('meta').",
         lambda: estimated(nn.Linear(4, 4).eval()),
         [estimated, lambda: estimated(nn.Linear(4, 4).eval().to("meta"))]),
    Case("torch/models.py", "Fix: save the model, not its weights.",
         lambda: compiled(saved(nn.Linear(4, 4).state_dict())),
         [lambda: compiled(saved(nn.Linear(4, 4)))]),
    Case("torch/models.py", "Fix: give example_inputs.", lambda: compiled(nn.Linear(4, 4), None),
         [lambda: compiled(nn.Linear(4, 4), X)]),
    Case("torch/models.py",
         "Fix: save it with torch.export.save, or give trust=True to the compiler "
         "if you know where it comes from.",
         lambda: compiled(saved(Module(plain))),
         [lambda: compiled(exported(), None), lambda: compiled(saved(Module(plain)), trust=True)]),
    Case("torch/models.py", "Fix: save it again.", lambda: compiled(damaged()),
         [lambda: compiled(saved(nn.Linear(4, 4)))]),
    Case("torch/samples.py", "Fix: give tuples of tensors in this order, or mappings of these names.",
         lambda: in_int8([X] * 4),
         [lambda: in_int8([(X, X + 1)] * 4), lambda: in_int8([{"x": X, "y": X + 1}] * 4)]),
]  # fmt: skip

#: Texts that cannot be followed here, and why.
REASONS = {
    ("torch/__init__.py", "is too old"): "to follow is to install another PyTorch",
    ("torch/capture.py", "exported nothing"): "no module is known of which torch.onnx.export gives None",
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """Or has a reason."""
    check_complete("torch/", CASES, REASONS)
