"""torch.compile on the device: networks against eager execution, recompilation, refusals."""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import kpusim
import kpusim.torch
import numpy as np
import pytest
import torch
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.filterwarnings("ignore")
F32 = {"platform": "tile32", "precision": "f32"}


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Dynamo without what other tests captured."""
    torch._dynamo.reset()
    torch.manual_seed(1)


def compiled(model: nn.Module | Any, **options: Any) -> Any:
    """Compile by the name that the entry point gives."""
    return torch.compile(model, backend="kpusim", options={**F32, **options})


def small() -> nn.Module:
    """Return two convolutions with a batch norm."""
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(1), nn.LazyLinear(4))
    model(torch.randn(2, 3, 8, 8))
    return model.eval()


def off(got: Tensor, want: Tensor) -> float:
    """Return the largest difference in parts of the range."""
    assert (got.shape, got.dtype) == (want.shape, want.dtype)
    return float((got - want).abs().max() / (want.max() - want.min()))


def test_digits_in_int8() -> None:
    """A network that is trained here, calibrated with its own data, keeps its classes."""
    images = torch.from_numpy(np.load(ROOT / "examples" / "networks" / "images.npy"))
    labels = torch.from_numpy(np.load(ROOT / "examples" / "networks" / "labels.npy")).long()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images[:256]), labels[:256]).backward()
        optimizer.step()
    model.eval()
    fast = compiled(model, platform="swkpu-v1", precision="int8", calibration=[x[None] for x in images[:16]])
    with torch.no_grad():
        want = torch.cat([model(x[None]) for x in images[256:]])
        got = torch.cat([fast(x[None]) for x in images[256:]])
    assert off(got, want) < 0.05
    assert (got.argmax(1) == want.argmax(1)).float().mean() > 0.98


def test_shapes_and_weights() -> None:
    """New shapes and changed weights are compiled anew; known ones are not."""
    model = small()
    fast = compiled(model, mode="functional")
    count = 0
    parse = kpusim.Program.parse

    def counting(*arguments: Any, **options: Any) -> kpusim.Program:
        nonlocal count
        count += 1
        return parse(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(kpusim.Program, "parse", counting)
        for batch, made in ((1, 1), (2, 2), (3, 3), (2, 3), (1, 3), (3, 3)):
            x = torch.randn(batch, 3, 8, 8)
            assert off(fast(x), model(x)) < 1e-5
            assert count == made
        for change in (lambda w: w.mul_(2), lambda w: w.data.copy_(w.data + 1)):
            change(model[0].weight)
            assert off(fast(x), model(x)) < 1e-5
        assert count == 5
        model[1].running_mean += 1
        assert off(fast(x), model(x)) < 1e-5


def test_training_and_gradients_are_refused() -> None:
    """Inference only: training mode at once, gradients when they are asked for."""
    model = small()
    fast = compiled(model, mode="functional")
    x = torch.randn(1, 3, 8, 8)
    y = fast(x)
    assert off(y.detach(), model(x).detach()) < 1e-5
    with pytest.raises(kpusim.UserError, match=r"no gradients.*torch\.no_grad"):
        y.sum().backward()
    model.train()
    with pytest.raises(kpusim.UserError, match=r"training mode.*Fix: call model\.eval"):
        compiled(model)(torch.randn(2, 3, 8, 8))
    dropping = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).train()
    with pytest.raises(kpusim.UserError, match="training mode"):
        compiled(dropping)(torch.randn(2, 4))


def breaks(x: Tensor) -> Tensor:
    """Not one graph."""
    y = x * 2
    print("between")
    return y + 1


def branches(x: Tensor) -> Tensor:
    """Depends on values."""
    return x * 2 if x.sum() > 0 else x


def unsupported(x: Tensor) -> Tensor:
    """Return an operator that the compiler lacks."""
    return torch.linalg.det(x @ x.T) + x.sum()


@pytest.mark.parametrize("function", [breaks, branches, unsupported])
def test_refusals(function: Any) -> None:
    """Functions that cannot be compiled are named with their line; PyTorch takes them if asked to."""
    x = torch.randn(3, 4)
    with torch.no_grad():
        with pytest.raises(kpusim.UserError) as error:
            compiled(function)(x)
        text = str(error.value)
        line = function.__code__.co_firstlineno
        assert any(f"test_torch.py:{line + offset}" in text for offset in range(2, 6)), text
        assert "Fix: " in text
        torch._dynamo.reset()
        assert torch.allclose(compiled(function, fallback="eager")(x), function(x))


def test_unsupported_are_all_listed() -> None:
    """Every operator that the importer lacks is in the list."""

    def several(x: Tensor) -> Tensor:
        return torch.linalg.det(x @ x.T) + torch.bernoulli(x)

    with pytest.raises(kpusim.UserError, match=r"(?s)Det.*Bernoulli|Bernoulli.*Det"):
        compiled(several)(torch.randn(3, 4))


def test_unconverted_are_all_listed() -> None:
    """Every operator that PyTorch's exporter lacks is named with its source line."""

    def several(x: Tensor) -> Tensor:
        y = torch.special.i1(x)
        return y + torch.special.modified_bessel_k0(x)

    line = several.__code__.co_firstlineno
    with pytest.raises(kpusim.UserError) as error:
        compiled(several)(torch.randn(3, 4))
    for name, offset in (("special_i1", 1), ("modified_bessel_k0", 2)):
        assert re.search(rf"{name}\S* \(\S*test_torch.py:{line + offset}\)", str(error.value)), error.value


def test_breaks_are_all_listed() -> None:
    """Each place where dynamo stops is named with its source line."""

    def several(x: Tensor) -> Tensor:
        y = torch.relu(x)
        print("first")
        y = y * 2
        if y.sum() > 0:
            y = y + 1
        print("last")
        return y.exp()

    line = several.__code__.co_firstlineno
    with pytest.raises(kpusim.UserError) as error, torch.no_grad():
        compiled(several)(torch.ones(3, 4))
    for offset in (2, 4, 6):
        assert f"test_torch.py:{line + offset})" in str(error.value), error.value


def test_kept_wider() -> None:
    """Options that mix precisions reach the compiler: a layer in fp16 among int8 ones, and the best mix."""
    torch.manual_seed(3)
    model, samples = small(), [torch.randn(1, 3, 8, 8) for _ in range(4)]
    x, errors = torch.randn(1, 3, 8, 8), []
    for more in ({}, {"accuracy": "best", "wide_share": 100}, {"keep": {"*": "fp16"}}):
        torch._dynamo.reset()
        with torch.no_grad():
            got = compiled(model, precision="int8", calibration=samples, **more)(x)
            errors.append(float((got - model(x)).norm()))
        last = kpusim.torch.last_run()
        assert last is not None
        kinds = {row.precision for row in last.ops if row.macs}
        assert ("f16" in kinds) == bool(more)
    assert errors[1] < errors[0]
    assert errors[2] < errors[0]


def test_fallback_is_told() -> None:
    """It is never silent."""
    with pytest.warns(UserWarning, match=r"(?s)left to PyTorch: .*Det"):
        compiled(torch.linalg.det, fallback="eager")(torch.randn(3, 3))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"platfrom": "tile32"}, "no option platfrom"),
        ({"mode": "timing"}, "gives no values"),
        ({"fallback": "inductor"}, "fallback"),
        ({"platform": "absent"}, "absent"),
        ({"precision": "fp17"}, "fp17"),
        ({"precision": "int8"}, "int8 needs samples"),
    ],
)
def test_options(options: dict[str, str], text: str) -> None:
    """Options that are none."""
    with pytest.raises(kpusim.UserError, match=text):
        compiled(nn.Linear(3, 2).eval(), **options)(torch.randn(1, 3))


def test_inputs_and_outputs() -> None:
    """Integers, booleans, nested outputs, in-place changes of an input, several inputs."""

    def function(x: Tensor, index: Tensor, flags: Tensor) -> dict[str, Any]:
        x.mul_(2)
        return {"a": (x[index], index * 2), "b": [flags & (x[:, 0] > 0), None, 3], "c": x.shape[0]}

    x, index = torch.randn(4, 5), torch.tensor([3, 0, 1])
    flags = torch.tensor([True, False, True, True])
    mine, theirs = x.clone(), x.clone()
    want = function(theirs, index, flags)
    got = compiled(function)(mine, index, flags)
    assert torch.equal(mine, theirs)
    assert torch.equal(got["a"][0], want["a"][0]) and torch.equal(got["a"][1], want["a"][1])
    assert torch.equal(got["b"][0], want["b"][0]) and got["b"][1:] == [None, 3] and got["c"] == 4
    assert got["a"][1].dtype is torch.int64 and got["b"][0].dtype is torch.bool


@pytest.mark.parametrize(
    ("kind", "precision", "bound"), [(torch.float16, "fp16", 2e-3), (torch.bfloat16, "bf16", 2e-2)]
)
def test_narrow_models(kind: torch.dtype, precision: str, bound: float) -> None:
    """A model in a narrow type, inputs and outputs in it too: no worse than PyTorch's run in that type."""
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.Flatten(), nn.Linear(1024, 8)
    )
    x = torch.randn(1, 3, 12, 12)
    with torch.no_grad():
        want = model(x)
        theirs = model.to(kind)(x.to(kind))
        got = compiled(model, precision=precision)(x.to(kind))
    assert got.dtype is kind
    mine, eager = off(got.float(), want), off(theirs.float(), want)
    assert mine <= max(1.5 * eager, bound)


def test_functions_of_transformers() -> None:
    """Captures of their code work: masks out of arange, index tensors, SDPA with a mask, cumsum, setitem."""

    def attention(tokens: Tensor, table: Tensor, kept: Tensor) -> Tensor:
        x = table[tokens]
        length = tokens.shape[1]
        causal = torch.arange(length)[None, :] <= torch.arange(length)[:, None]
        mask = causal[None, None] & kept[:, None, None, :]
        places = (kept.long().cumsum(-1) - 1).clamp(min=0)
        x = x + table[places]
        y = nn.functional.scaled_dot_product_attention(x[:, None], x[:, None], x[:, None], attn_mask=mask)
        y[:, :, 0] = 1.0
        return y.squeeze(1) @ table.T

    tokens, table = torch.randint(0, 10, (2, 5)), torch.randn(10, 8)
    kept = torch.tensor([[True] * 5, [True, True, True, False, False]])
    with torch.no_grad():
        assert off(compiled(attention)(tokens, table, kept), attention(tokens, table, kept)) < 1e-5


def test_exported_by_the_other_way(tmp_path: Path) -> None:
    """A model that torch.onnx.export writes, weights beside it, is taken by kpusim.compile."""
    model, x = small(), torch.randn(1, 3, 8, 8)
    path = tmp_path / "model.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, (x,), str(path), dynamo=True, external_data=True, verbose=False)
    run = kpusim.simulate(kpusim.compile(path, "tile32", "f32"), inputs={"input": x.numpy()})
    (got,) = run.outputs.values()
    assert off(torch.from_numpy(got), model(x).detach()) < 1e-5
