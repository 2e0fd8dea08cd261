"""Operators of PyTorch that have no counterpart: an error of the client's class, with all names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import kpusim
import kpusim.torch
import numpy as np
import pytest
import torch
from kpusim import kpu
from kpusim.torch import capture
from torch import Tensor, nn

pytestmark = pytest.mark.filterwarnings("ignore")


class Unsupported(nn.Module):
    """One that PyTorch's exporter lacks, twice, and another."""

    def forward(self, x: Tensor) -> Tensor:
        """Bessel functions and a polynomial."""
        y = torch.special.bessel_j1(x) + torch.special.bessel_j1(x + 1)
        return y + torch.special.hermite_polynomial_h(x, 3)


class Imported(nn.Module):
    """One that exists in ONNX, and that is not imported."""

    def forward(self, x: Tensor) -> Tensor:
        """Return a determinant."""
        return torch.linalg.det(x)


NAMES = ["aten.special_bessel_j1.default", "aten.special_hermite_polynomial_h.n_scalar"]


def test_by_torch_compile() -> None:
    """The class of the client, which is a UserError too; the names, and their lines in the text."""
    torch._dynamo.reset()
    fast = torch.compile(Unsupported().eval(), backend="kpusim")
    with torch.no_grad(), pytest.raises(kpu.UnsupportedOpError) as caught:
        fast(torch.rand(2, 3))
    assert caught.value.ops == NAMES and isinstance(caught.value, kpusim.UserError)
    assert str(caught.value).count("test_torch_operators.py:") >= 3
    torch._dynamo.reset()
    fast = torch.compile(Imported().eval(), backend="kpusim")
    with torch.no_grad(), pytest.raises(kpu.UnsupportedOpError) as caught:
        fast(torch.rand(2, 3, 3))
    assert caught.value.ops == ["Det"]


@pytest.mark.parametrize(("model", "ops"), [(Unsupported, NAMES), (Imported, ["Det"])])
def test_by_the_compiler(model: type[nn.Module], ops: list[str], tmp_path: Path) -> None:
    """The same of modules that the compiler is given; validation names them too."""
    shape = (1, 3, 3)
    with pytest.raises(kpu.UnsupportedOpError) as caught:
        kpu.KPUCompiler().compile(model(), example_inputs=(torch.rand(shape),))
    assert caught.value.ops == ops
    issues = kpu.KPUCompiler().validate_model(model(), example_inputs=(torch.rand(shape),))
    assert issues and all(any(name in issue for issue in issues) for name in ops)
    with pytest.raises(kpusim.KpusimError):
        kpu.StillwaterKPUTarget().deploy(model(), "fp16", tmp_path / "x", shape)
    assert np.all([not path.suffix == ".kpu" for path in tmp_path.iterdir()])


def test_old_releases_are_refused() -> None:
    """An error of one line names the oldest release that works."""
    code = "import torch; torch.__version__ = '2.4.1+cpu'; import kpusim.torch"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "UserError: PyTorch 2.4.1+cpu is too old" in done.stderr and "torch>=2.9" in done.stderr


def test_composites_are_listed_anew() -> None:
    """PyTorch finds the same as without our list, also of an operator that is registered later."""
    utils = pytest.importorskip("torch._export.utils")
    library = torch.library.Library("kpusim_composites", "DEF")
    for name in ("first", "second"):
        library.define(f"{name}(Tensor x) -> Tensor")
        library.impl(name, lambda x: x + 1, "CompositeImplicitAutograd")
        with capture.listed_composites():
            ours = utils._collect_all_valid_cia_ops()
        assert ours == utils._collect_all_valid_cia_ops()
        assert getattr(torch.ops.kpusim_composites, name).default in ours
