"""Kernels called with arrays."""

from __future__ import annotations

import signal
import threading
from collections.abc import Generator
from pathlib import Path

import kpusim
import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "kernels"


def test_arrays_go_in_and_out() -> None:
    """Values are NumPy's, in every mode that has some; time passes."""
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    run = saxpy(x, y, np.array([2.0], np.float32))
    assert np.array_equal(run.outputs["y"], 2 * x + 1)
    assert run.cycles > 0
    functional = saxpy(x, y, np.array([2.0], np.float32), mode="functional")
    assert np.array_equal(functional.outputs["y"], run.outputs["y"])


def test_scalars_sizes_and_two_dimensions() -> None:
    """Arrays of any shape; outputs of another size; copies from L2."""
    x = np.arange(512, dtype=np.float32).reshape(16, 32)
    transposed = kpusim.kernel(EXAMPLES / "arrays.kern", "transpose")(x, grid=(2, 1), args=(16, 32))
    assert np.array_equal(transposed.outputs["result"], x.T.ravel())
    row = np.random.default_rng(1).normal(0, 1, 128).astype(np.float32)
    top = kpusim.kernel(EXAMPLES / "orders.kern", "top_k")(
        row, grid=(2,), args=(3,), sizes={"values": 6, "indices": 6}
    )
    assert np.array_equal(top.outputs["values"], -np.sort(-row.reshape(2, 64), axis=1)[:, :3].ravel())
    words = np.arange(256, dtype=np.uint32)
    tripled = kpusim.kernel(EXAMPLES / "copies.kern", "stream")(words, grid=(1,), args=(16,))
    assert np.array_equal(tripled.outputs["result"], 3 * words)


def test_mistakes(tmp_path: Path) -> None:
    """They name the kernel, the buffer or the place in the text."""
    with pytest.raises(kpusim.UserError, match=r"has several kernels\. Fix: name one of saxpy, reduce, scan"):
        kpusim.kernel(EXAMPLES / "vectors.kern")
    saxpy = kpusim.kernel(EXAMPLES / "vectors.kern", "saxpy")
    with pytest.raises(kpusim.UserError, match=r"takes 3 arrays \(x, y, a\), not 1"):
        saxpy(np.zeros(4, np.float32))
    with pytest.raises(kpusim.UserError, match=r"buffer `x` of kernel `saxpy` is f32, the array int64"):
        saxpy(np.zeros(4, np.int64), np.zeros(4, np.float32), np.zeros(1, np.float32))
    text = tmp_path / "k.kern"
    text.write_text("kernel k workgroup(1) (o: output u32[1]):\n    o[0] = x\nendkernel\n")
    with pytest.raises(kpusim.UserError, match=r"k\.kern:2:5.*undeclared variable `x`"):
        kpusim.kernel(text)
    text.write_text("kernel k workgroup(2) (x: read u32[], o: output u32[1]): o[0] = x[lid.x] endkernel")
    with pytest.warns(kpusim.HazardWarning):
        kpusim.kernel(text)(np.arange(2, dtype=np.uint32), grid=(1,))
    text.write_text("kernel k workgroup(2) (o: output u32[2]): o[lid.x] = lid.x + 7 endkernel")
    assert kpusim.kernel(text)(grid=(1,)).outputs["o"].tolist() == [7, 8]  # nothing is read


SUM = """kernel sum workgroup(4) (x: read u32[], o: output u32[]):
    let total = 0
    loop j in 0..gid.x + 1:
        total = total + x[j]
    endloop
    o[gid.x] = total
endkernel
"""
LAUNCH = """device "npm_lite.nem"
program sum:
#! kernels sum.kern
buffer m : L2 (size = 32)
buffer s : L1[0] (size = 32)
let x1 = region(m, 0, 16) elem=u32, shape=[4], layout=N
let x2 = region(s, 0, 16) elem=u32, shape=[4], layout=N
let o2 = region(s, 16, 16) elem=u32, shape=[4], layout=N
b = transfer.async(dst=x2, src=x1)
k = compute.async in x2 out o2 op="sum" deps=[b]
"""


@pytest.fixture
def stopped(tmp_path: Path) -> kpusim.Simulation:
    """A launch of sum that has its input."""
    (tmp_path / "sum.kern").write_text(SUM)
    (tmp_path / "sum.nem").write_text(LAUNCH)
    simulation = kpusim.Simulation(tmp_path / "sum.nem")
    simulation.set_inputs(fill="zeros")
    return simulation


def test_a_debugger_takes_a_list(stopped: kpusim.Simulation) -> None:
    """An answer for each verb."""
    answers = stopped.debug(["break line 4", "continue", "print j", "delete 1", "continue"])
    assert answers[0] == "1: line 4"
    assert answers[2] == "j = 0"
    assert answers[4].startswith("the program is finished at cycle ")


def test_a_debugger_talks_to_a_generator(stopped: kpusim.Simulation) -> None:
    """It gets the answers; what it raises comes out, in the middle of a kernel too."""
    heard = []

    def session() -> Generator[str, str, None]:
        heard.append((yield "break line 6"))
        heard.append((yield "continue"))
        heard.append((yield "print total"))
        raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        stopped.debug(session())
    assert heard[0] == "1: line 6"
    assert "`o[gid.x] = total`" in heard[1]
    assert heard[2] == "total = 0"


def test_a_session_that_ends_leaves_a_simulation(stopped: kpusim.Simulation) -> None:
    """Between tasks where it stands, inside of a kernel at the beginning; then it runs as any other."""
    cycles = stopped.run().cycles
    assert stopped.debug(["cycle 30"]) == ["at cycle 30"]
    assert stopped.cycle == 30
    stopped.debug(["break line 4", "continue"])
    assert (stopped.status, stopped.cycle) == ("paused", 0)
    assert stopped.run().cycles == cycles


def test_a_debugger_is_interrupted(stopped: kpusim.Simulation, tmp_path: Path) -> None:
    """Ctrl-C reaches a kernel without an end, which then stands still for nobody."""
    (tmp_path / "sum.kern").write_text(SUM.replace("gid.x + 1", "0xffffffff").replace("x[j]", "x[j] * 3"))
    simulation = kpusim.Simulation(tmp_path / "sum.nem")
    simulation.set_inputs(fill="zeros")
    timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulation.debug(["continue", "where"])
    assert simulation.cycle == 0


def test_a_debugger_refuses(stopped: kpusim.Simulation) -> None:
    """Words that are no verbs are refused, and a mode without values; a text has a verb in each line."""
    assert stopped.debug("break line 4\ncontinue\nprint j")[2] == "j = 0"
    with pytest.raises(kpusim.UserError, match="verbs=5 are not valid"):
        stopped.debug(5)  # type: ignore[arg-type]
    with pytest.raises(kpusim.UserError, match="verb 5 is not text"):
        stopped.debug([5])  # type: ignore[list-item]
    copies = stopped.program
    timing = kpusim.Simulation(copies, mode="timing")
    with pytest.raises(kpusim.UserError, match="a debugger shows values, and timing mode has none"):
        timing.debug(["continue"])


def test_an_interrupted_kernel_goes_on(stopped: kpusim.Simulation, tmp_path: Path) -> None:
    """Its time ends, and Ctrl-C comes, in the middle of a task; another run finishes it."""
    loops = 6_000_000
    (tmp_path / "sum.kern").write_text(SUM.replace("gid.x + 1", str(loops)).replace("x[j]", "x[gid.x]"))
    simulation = kpusim.Simulation(tmp_path / "sum.nem", mode="functional")
    simulation.set_inputs({"m": np.arange(8, dtype=np.uint32)})
    with pytest.raises(kpusim.SimulationError, match="stopped by its timeout"):
        simulation.run(timeout=0.05)
    timer = threading.Timer(0.05, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        simulation.run()
    run = simulation.run()
    assert run.complete
    assert simulation.read("o2").ravel().tolist() == [0, loops, 2 * loops, 3 * loops]
