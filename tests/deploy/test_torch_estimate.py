"""Modules without storage: they take the time that they take with weights."""

from __future__ import annotations

import resource

import kpusim.torch
import pytest
import torch
from kpusim.errors import UserError
from kpusim.simulation import Simulation
from kpusim.torch.backend import Options, compiled
from kpusim.torch.capture import Flat, flat_program, onnx_program, to_onnx
from kpusim.torch.meta import without_weights


class Decoder(torch.nn.Module):
    """A layer whose keys and values are shared by heads, as language models have it."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(64, size, bias=False) for size in (64, 32, 32))
        self.o, self.norm = torch.nn.Linear(64, 64), torch.nn.RMSNorm(64)
        self.register_buffer("shift", torch.ones(64))

    def forward(self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        """Attention over a cache and the new tokens."""
        b, s, _ = x.shape
        q = self.q(self.norm(x)).view(b, s, 4, 16).transpose(1, 2)
        k = torch.cat([past[0], self.k(x).view(b, s, 2, 16).transpose(1, 2)], 2)
        v = torch.cat([past[1], self.v(x).view(b, s, 2, 16).transpose(1, 2)], 2)
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return x + self.o(out.transpose(1, 2).reshape(b, s, 64)) + self.shift


def networks() -> dict[str, tuple[torch.nn.Module, tuple[object, ...]]]:
    """Modules with their arguments."""
    cache = (torch.randn(2, 2, 24, 16), torch.randn(2, 2, 24, 16))
    return {
        "encoder": (
            torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
            (torch.randn(2, 16, 64),),
        ),
        "decoder": (Decoder(), (torch.randn(2, 1, 64), cache)),
        "cnn": (
            torch.nn.Sequential(
                torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2),
                torch.nn.Flatten(), torch.nn.Linear(8 * 7 * 7, 40),
            ),
            (torch.randn(2, 3, 16, 16),),
        ),
    }  # fmt: skip


@pytest.mark.parametrize("name", networks())
@pytest.mark.parametrize(("platform", "precision"), [("swkpu-v2", "fp16"), ("npm_lite", "int8")])
def test_same_time_as_with_weights(name: str, platform: str, precision: str) -> None:
    """In floats exactly; in int8 about, where ranges decide what stays floats."""
    torch.manual_seed(1)
    module, inputs = networks()[name]
    for tensor in (*module.parameters(), *module.buffers()):
        if tensor.is_floating_point():  # ones and zeros would be simplified away
            tensor.data.uniform_(0.5, 1.0)
    module.eval()
    options = Options.of({"platform": platform, "precision": precision})
    model = to_onnx(flat_program(Flat(module), inputs, name), name)
    samples = "random:1" if precision == "int8" else None
    expected = Simulation(compiled(model, options, name, samples), mode="timing").run()
    run = kpusim.torch.estimate(module.to("meta"), inputs, platform=platform, precision=precision)
    assert run.mode == "timing" and not run.outputs
    if precision == "fp16":
        assert (run.cycles, run.stats["bytes.dram.read"]) == (
            expected.cycles,
            expected.stats["bytes.dram.read"],
        )
    else:
        assert 0.5 < run.cycles / expected.cycles < 2


def test_no_memory_for_the_module() -> None:
    """A module of 16 GiB is captured in none; of its first layer there is the time."""
    with torch.device("meta"):
        layers = [torch.nn.Linear(1024, 1024, bias=False), *(torch.nn.Linear(2**15, 2**15) for _ in range(4))]
        module, x = torch.nn.Sequential(*layers).eval(), torch.empty(4, 1024)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run = kpusim.torch.estimate(module[0], x, platform="npm_lite", precision="fp16")
    program = flat_program(Flat(module[1]), (torch.empty(1, 2**15, device="meta"),), "layer")
    model = without_weights(onnx_program(program, "layer", optimize=False).model)
    assert len(model.model) < 10_000 and not model.weights
    assert run.stats["bytes.dram.read"] >= 2 * 1024 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # KiB


def test_refused() -> None:
    """Weights that are there, options of runs with values, training."""
    with torch.device("meta"):
        module, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Dropout()), torch.empty(2, 8)
    for given, more, said in (
        (torch.nn.Linear(8, 8).eval(), {}, r"it has weights\. Fix: make it under torch\.device"),
        (module.eval(), {"fallback": "eager"}, r"neither `fallback` nor `mode`\. Fix: "),
        (module.eval(), {"mode": "functional"}, r"neither `fallback` nor `mode`\. Fix: "),
        (module.eval(), {"speed": 1}, r"there is no option speed"),
        (module.eval(), {"accuracy": 40.0, "precision": "int8"}, r"Fix: give the model with its weights"),
    ):
        with pytest.raises(UserError, match=said):
            kpusim.torch.estimate(given, x, platform="swkpu-v2", **more)
    with pytest.raises(UserError, match=r"training mode"):
        kpusim.torch.estimate(module.train(), x, platform="swkpu-v2")
