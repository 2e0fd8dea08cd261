"""torch.compile on the device: the networks of examples/networks against eager execution."""

from __future__ import annotations

import copy
import sys
from pathlib import Path

import kpusim
import kpusim.torch
import pytest
import torch
from test_torch import compiled, fresh, off  # noqa: F401  (fresh: before each test)

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "networks"))
from networks import build, sample

pytestmark = pytest.mark.filterwarnings("ignore")
NETWORKS = (
    "resnet18",
    "mobilenet_v2",
    "yolov8n",
    "small_unet",
    "vit_tiny",
    "gpt2_block",
    "bert_layer",
    "lstm",
)


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name: str) -> None:
    """Outputs as near to binary64 as of eager execution; the first call compiles, the second does not."""
    model, x = build(name), sample(name)
    fast = compiled(model)
    with torch.no_grad():
        want, got = model(x), fast(x)
        exact = copy.deepcopy(model).double()(x.double() if x.is_floating_point() else x).float()
        assert off(got, exact) < max(1e-5, 4 * off(want, exact))
        first = kpusim.torch.last_run()
        again = fast(x)
    assert torch.equal(again, got)
    last = kpusim.torch.last_run()
    assert last is not None and last is not first and last.cycles == first.cycles > 0
    assert sum(row.charged_cycles for row in last.ops) == last.cycles
