"""Kernels called with arrays that do not fit, or fit in their own way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import numpy.typing as npt
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"
X = np.arange(8, dtype=np.float32)
A = np.array([2.0], np.float32)


@pytest.fixture
def made(tmp_path: Path) -> Callable[..., kpusim.Kernel]:
    """A kernel of a head and a body."""

    def make(head: str, body: str, lanes: int = 1) -> kpusim.Kernel:
        text = tmp_path / "k.kern"
        text.write_text(f"kernel k workgroup({lanes}) ({head}): {body} endkernel")
        return kpusim.kernel(text)

    return make


def copied(made: Callable[..., kpusim.Kernel], kind: str) -> kpusim.Kernel:
    """Return a kernel that copies elements of a type."""
    return made(f"x: read {kind}[], o: output {kind}[]", "o[gid.x] = x[gid.x]")


@pytest.mark.parametrize(
    "x",
    [
        X.tolist(),
        X.astype(np.float64),
        X.astype(np.float16),
        X.astype(">f4"),
        np.repeat(X, 2)[::2],
        X[::-1][::-1],
        np.asfortranarray(X.reshape(2, 4)),
    ],
)
def test_arrays_of_any_layout(x: npt.ArrayLike) -> None:
    """Their elements in C order count; nothing of the caller changes."""
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    y = np.ones(8, np.float32)
    assert saxpy(x, y, A).outputs["y"].tolist() == (2 * X + 1).tolist()
    assert saxpy(y, y, 2.0).outputs["y"].tolist() == [3.0] * 8
    assert y.tolist() == [1.0] * 8


def test_types(made: Callable[..., kpusim.Kernel]) -> None:
    """Outputs have the types of their buffers; integers fit by their values."""
    for kind, array in (
        ("u64", np.array([2**40 + 1, 5], np.uint64)),
        ("bool", np.array([True, False, True])),
        ("i8", np.array([-128, 127], np.int8)),
        ("u16", np.array([65535], np.uint16)),
        ("f16", np.array([1.5, -2.0], np.float16)),
        ("bf16", np.array([0x3FC0, 0x7F80], np.uint16)),
    ):
        out = copied(made, kind)(array).outputs["o"]
        assert out.dtype == array.dtype, kind
        assert np.array_equal(out, array), kind
    assert copied(made, "u32")(np.arange(3)).outputs["o"].tolist() == [0, 1, 2]
    assert copied(made, "i32")(np.array([1, 2], np.uint64)).outputs["o"].tolist() == [1, 2]
    assert copied(made, "bool")(np.array([1, 0])).outputs["o"].tolist() == [True, False]
    assert copied(made, "u8")(np.array([True, False])).outputs["o"].tolist() == [1, 0]


@pytest.mark.parametrize(
    ("kind", "array", "text"),
    [
        ("f32", np.arange(3), r"is f32, the array int64\. Fix: convert it, as by \.astype\(np\.float32\)"),
        ("u32", X, r"is u32, the array float32\. Fix: convert it, as by \.astype\(np\.uint32\)"),
        ("u32", np.array([True]), "is u32, the array bool"),
        ("bf16", X, r"is bf16, the array float32\. Fix: give its bits as uint16"),
        (
            "i32",
            np.array([2, 2**40]),
            r"values from 2 to 1099511627776\. Fix: keep them in -2147483648 to 2147483647",
        ),
        ("u8", np.array([-1, 2]), r"values from -1 to 2\. Fix: keep them in 0 to 255"),
        ("bool", np.array([2]), r"values from 2 to 2\. Fix: keep them in 0 to 1"),
        ("f32", np.array([1e300]), r"the array has values beyond it\. Fix: scale them"),
        ("f32", np.zeros(0, np.float32), r"has no elements: the array is empty\. Fix: give at least one"),
        ("f32", np.zeros(2, complex), "has dtype complex128, which no element type has"),
        ("f32", "text", "which no element type has"),
        ("f32", [[1.0, 2.0], [3.0]], "is not an array"),
        ("f32", np.ma.array([1.0], mask=[True]), "is a masked array"),
    ],
)
def test_arrays_that_do_not_fit(
    made: Callable[..., kpusim.Kernel], kind: str, array: npt.ArrayLike, text: str
) -> None:
    """The buffer, what is wrong with its array, and what to do."""
    with pytest.raises(kpusim.UserError, match=f"buffer `x` of kernel `k` .*{text}"):
        copied(made, kind)(array)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"grid": 4}, r"grid=4 is not a sequence of integers\. Fix: write it like \(4, 2\)"),
        ({"grid": "4"}, "grid='4' is not a sequence of integers"),
        ({"grid": (1.5,)}, r"grid=\(1\.5,\) is not a sequence of integers"),
        ({"grid": (0,)}, r"<launch of saxpy>:\d+:1: error: the grid has 0 workgroups along axis 0"),
        ({"grid": (1, 1, 1, 1)}, "<launch of saxpy>.*not this `grid`"),
        ({"args": 3}, "args=3 is not a sequence of integers"),
        ({"args": (1,)}, "kernel `saxpy` takes 0 scalars, the launch gives 1"),
        ({"sizes": {"z": 3}}, "sizes has `z`, and kernel `saxpy` no output of that name"),
        ({"sizes": {"y": 3}}, r"sizes has `y`.*Fix: leave it out"),
        ({"mode": "fast"}, "mode='fast' is not a mode"),
        ({"platform": "nope"}, "platform `nope`"),
    ],
)
def test_launches_that_do_not_fit(options: dict[str, Any], text: str) -> None:
    """They are refused by what the caller wrote."""
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    with pytest.raises(kpusim.UserError, match=text):
        saxpy(X, X, A, **options)


def test_scalars(made: Callable[..., kpusim.Kernel]) -> None:
    """Integers of NumPy and truth values too."""
    kernel = made("o: output u32[2], n: u32, b: bool", "o[gid.x] = n + u32(b)")
    assert kernel(args=(np.uint32(4), True)).outputs["o"].tolist() == [5, 5]
    with pytest.raises(kpusim.UserError, match="scalar `n` is -1, which is not a valid u32"):
        kernel(args=(-1, 0))
    with pytest.raises(kpusim.UserError, match=r"kernel `k` takes 2 scalars, the launch gives 0"):
        kernel()


def test_outputs(made: Callable[..., kpusim.Kernel]) -> None:
    """Their sizes; names that the launch has too; accesses outside are told."""
    kernel = made("x: read u32[], o: output u32[], p: output u32[3]", "o[gid.x] = x[gid.x] p[gid.x] = 7")
    run = kernel(np.arange(4), sizes={"o": 2}, grid=(4,))
    assert {name: out.tolist() for name, out in run.outputs.items()} == {"o": [0, 1], "p": [7, 7, 7]}
    assert [finding.severity for finding in run.diagnostics] == ["warning", "warning"]
    assert "store" in run.diagnostics[0].message
    with pytest.raises(kpusim.UserError, match=r"sizes has `p`.*Fix: name one of o"):
        kernel(np.arange(4), sizes={"p": 2})
    with pytest.raises(
        kpusim.UserError,
        match=r"sizes\['o'\]=0 is not an integer of at least 1\. Fix: give an integer, 1 or more",
    ):
        kernel(np.arange(4), sizes={"o": 0})
    names = made("launch: read u32[], launch_L1: output u32[], r_launch: output u32[]",
                 "launch_L1[gid.x] = launch[gid.x] r_launch[gid.x] = 1")  # fmt: skip
    assert names(np.array([3])).outputs["launch_L1"].tolist() == [3]
    with pytest.raises(kpusim.UserError, match="kernel `k` gives nothing: it has no buffer to write"):
        made("x: read u32[]", "let a = x[0]")(np.array([3]))


def test_files(tmp_path: Path) -> None:
    """A kernel is what its file was; any name will do; its head is shown."""
    text = tmp_path / "a b;c.kern"
    text.write_text("kernel k workgroup(1) (o: output u32[1], n: i32): o[0] = 1 endkernel")
    kernel = kpusim.kernel(text)
    text.unlink()
    assert kernel(args=(0,)).outputs["o"].tolist() == [1]
    assert repr(kernel) == "Kernel(k(o: output u32[1], n: i32))"
    text.write_text("# nothing\n")
    with pytest.raises(kpusim.UserError, match="there is no kernel in it"):
        kpusim.kernel(text)
    with pytest.raises(kpusim.UserError, match="3 is not a path"):
        kpusim.kernel(3)  # type: ignore[arg-type]


def test_a_call_can_be_debugged() -> None:
    """The simulation of a call, which has its inputs."""
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    simulation = saxpy.simulation(X, X, A)
    line = next(
        number
        for number, text in enumerate((EXAMPLES / "vectors.kern").read_text().splitlines(), 1)
        if "fma(a[0]" in text
    )
    answers = simulation.debug([f"break line {line}", "continue", "lane 3", "print i", "print x[3]"])
    assert answers[3:] == ["i = 3", "x[3] = 3"]
    assert simulation.run().cycles == saxpy(X, X, A).cycles
