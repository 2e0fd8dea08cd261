"""Each fix that an error advises works: a case makes a mistake, reads the fix, and follows it."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import numpy.typing as npt
import pytest
from conftest import RELU
from fixes import PACKAGE, Case, check_complete, play, texts
from kpusim.nem import NemInterpreter
from kpusim.schedule import Engine, EngineConfig, Graph, Runtime

ROOT = Path(__file__).resolve().parents[2]
X = np.ones(256, np.float16)
F32 = np.ones(8, np.float32)
LAYERS = str(ROOT / "examples" / "resnet18" / "resnet18.csv")
DIGITS = ROOT / "examples" / "networks" / "digits_cnn.onnx"
VECTORS = ROOT / "examples" / "kernels" / "vectors.kern"
RACY = RELU.replace("fetch = transfer.async(dst=near, src=mid, deps=[load])",
                    "fetch = transfer.async(dst=near, src=mid)")  # fmt: skip
LOOP = """loop j in [0..3]:
    let {} = region(y, j * T, T) elem=f16, shape=[64], layout=N
endloop
"""
COPY = """
program copy:
buffer x : DDR (size = 4)
buffer m : L2 (size = {0})
let at = region(x, 0, 4) elem={1}, shape=[{2}], layout=N
a = transfer.async(dst=region(m, 0, 4), src=at)
"""
INSIDE = """
program inside:
buffer m : L2 (size = 128)
buffer n : L1[0] (size = 128)
a = transfer.async(dst=region(n, 0, 128), src=region(m, 0, 128))
"""
BATCH = "#! param T = 4 in [1..8]\n" + re.sub(r"\bT\b", "U", RELU)
FIXED = RELU.replace("let dst", "let still = region(x, 0, T) elem=f16, shape=[64], layout=N\n    let dst", 1)
LONG = RELU.replace("4 * T", "40000 * T").replace("[0..3]", "[0..39999]")
LENGTH = "o[gid.x] = len(x)"
MASKED = np.ma.masked_array(X, mask=X > 0)
CORE_MHZ: dict[str, Any] = {"clock.core_mhz": 800}


def simulation(text: str = RELU, **options: Any) -> kpusim.Simulation:  # noqa: ANN401
    """Simulate the program that tests share."""
    return kpusim.Simulation(kpusim.Program.parse(text), "swkpu-v1", **options)


def page_twice(first: str, second: str = "", *, force: bool = False) -> None:
    """A page of two runs, then another, or the same again."""
    difference = kpusim.diff(run(), run())
    difference.write_html(first)
    difference.write_html(second or first, force=force)


def filled(text: str = RELU) -> kpusim.Simulation:
    """Return the same with inputs."""
    made = simulation(text)
    made.set_inputs(fill="zeros")
    return made


def functional(text: str, timeout: float) -> kpusim.Run:
    """A run without time."""
    return simulation(text, mode="functional").run(fill=1, timeout=timeout)


def simulate_digits(program: kpusim.Program, **options: Any) -> kpusim.Simulation:  # noqa: ANN401
    """Return a network on a device."""
    return kpusim.Simulation(program, "tile32", **options)


def bf16(count: int) -> npt.NDArray[Any]:
    """Ones in the dtype of ml_dtypes."""
    import ml_dtypes

    return np.ones(count, ml_dtypes.bfloat16)


def run(**options: Any) -> kpusim.Run:  # noqa: ANN401
    """A run with inputs."""
    return simulation(**options).run(fill="zeros")


def banked(text: str = RELU) -> kpusim.Run:
    """A run on a DRAM with controllers."""
    burst: dict[str, Any] = {"ddr.fidelity": "burst"}
    return kpusim.simulate(text, "swkpu-v1", mode="timing", **burst)


def copied(elem: str, count: int, data: object) -> kpusim.Run:
    """A run of a program that copies elements of a type."""
    return kpusim.Simulation(COPY.format(4, elem, count), "swkpu-v1").run({"x": data})  # type: ignore[dict-item]


def loaded(text: str = RELU, device: str | None = None) -> NemInterpreter:
    """Return an interpreter with a program."""
    interpreter = NemInterpreter()
    interpreter.load(text, device)
    return interpreter


def written(events: bool = False) -> kpusim.Simulation:
    """Return a simulation that was stepped, and written to."""
    stepped = simulation(events=events)
    stepped.set_inputs(fill="zeros")
    stepped.step(100)
    stepped.write("near", np.zeros(64, np.float16), i=0)
    return stepped


def overtaken(follow: bool) -> str:
    """Report of a run whose simulation has moved on; to follow: of a run that was made apart."""
    shared = simulation()
    first = shared.run(fill="zeros")
    second = shared.run(fill="zeros")
    return (second if follow else first).report()


class Ones:
    """An engine that gives one result of its own, for each operation."""

    def __init__(self, *results: npt.ArrayLike) -> None:
        self.results = list(results)

    def supports(self, opcode: str, inputs: Sequence[str], outputs: Sequence[str]) -> bool:
        """All."""
        return True

    def execute(
        self,
        opcode: str,
        inputs: Sequence[kpusim.Operand],
        outputs: Sequence[kpusim.Operand],
        attributes: Mapping[str, object],
    ) -> Sequence[npt.ArrayLike]:
        """Return the results."""
        return self.results


def kernel(head: str, body: str = "o[gid.x] = x[gid.x]") -> kpusim.Kernel:
    """Return a kernel of a head and a body."""
    Path("k.kern").write_text(f"kernel k workgroup(1) ({head}): {body} endkernel")
    return kpusim.kernel("k.kern")


def called(kind: str, data: npt.ArrayLike, **options: Any) -> kpusim.Run:  # noqa: ANN401
    """Return a kernel that copies elements of a type, on an array."""
    return kernel(f"x: read {kind}[], o: output {kind}[]")(data, **options)


def saxpy(*arrays: npt.ArrayLike, **options: Any) -> kpusim.Run:  # noqa: ANN401
    """Return one of the kernels of the examples."""
    return kpusim.kernel(VECTORS, "saxpy")(*arrays, **options)


def tensor(elem: str = "f32") -> Runtime:
    """Return a runtime of tile schedules with a tensor of 2 x 3."""
    runtime = Runtime(elem=elem)
    runtime.register_tensor("A", (2, 3))
    return runtime


def engine(elem: str = "f32") -> Engine:
    """Return the same as an engine."""
    made = Engine(EngineConfig(elem=elem))
    made.register_tensor("A", 2, 3)
    return made


def graph(*names: str) -> None:
    """A graph with these inputs."""
    made = Graph()
    for name in names:
        made.input(name, (32, 32))


def no_kernel() -> kpusim.Kernel:
    """Return a file without kernels."""
    Path("empty.kern").write_text("# nothing\n")
    return kpusim.kernel("empty.kern")


def read_only() -> npt.NDArray[Any]:
    """Return an array that cannot be written."""
    array = np.zeros((2, 3), np.float32)
    array.flags.writeable = False
    return array


CASES = [
    Case("base/arguments.py", "Fix: give a str or a pathlib.Path.", lambda: kpusim.load(5),
         [lambda: kpusim.load(LAYERS), lambda: kpusim.load(Path(LAYERS))]),
    Case("base/arguments.py", "Fix: give a list of paths.", lambda: kpusim.load(LAYERS, search_paths="x"),
         [lambda: kpusim.load(LAYERS, search_paths=["."])]),
    Case("base/arguments.py", "Fix: give one.", lambda: kpusim.diff(run(), run(), threshold="x"),
         [lambda: kpusim.diff(run(), run(), threshold=0.5)]),
    Case("base/arguments.py", "Fix: give an integer, {} or more.", lambda: run().report(width=0),
         [lambda: run().report(width=1), lambda: run().report(width=80)]),
    Case("base/arguments.py", "Fix: give a str.", lambda: run(events=True).events.write_trace(5, "t"),
         [lambda: run(events=True).events.write_trace("vcd", "t.vcd")]),
    Case("base/arrays.py", "Fix: fill it, for example with .filled(0).",
         lambda: simulation().run({"x": MASKED}),
         [lambda: simulation().run({"x": MASKED.filled(0)})]),
    Case("base/arrays.py", "Fix: give integers or floats of at most 64 bits.",
         lambda: simulation().run({"x": X.astype(complex)}),
         [lambda: simulation().run({"x": X})]),
    Case("base/arrays.py", "Fix: give a NumPy array.", lambda: simulation().run({"x": [[1], [2, 3]]}),
         [lambda: simulation().run({"x": X})]),
    Case("base/arrays.py", "Fix: convert the values, or give the bits with .view(np.{}) if they are meant.",
         lambda: copied("f16", 2, bf16(2)),
         [lambda: copied("f16", 2, bf16(2).astype(np.float16)),
          lambda: copied("u16", 2, bf16(2).view(np.uint16))]),
    Case("simulation/backend.py", "Fix: give such an array.",
         lambda: run(engine=Ones(np.ones(3, np.float16))),
         [lambda: run(engine=Ones(np.ones(64, np.float16)))]),
    Case("simulation/backend.py", "Fix: one array each.", lambda: run(engine=Ones()),
         [lambda: run(engine=Ones(np.ones(64, np.float16)))]),
    Case("run/frames.py", "Fix: give one of {}.", lambda: run().to_pandas("rows"),
         [lambda: [banked().to_pandas(name).size
                   for name in ("ops", "stalls", "power", "events", "traffic", "banks")]]),
    Case("kernels/data.py", "Fix: declare it as i8 or u8.",
         lambda: kernel("x: read i4[], o: output u32[]", LENGTH)([1]),
         [lambda: kernel("x: read i8[], o: output u32[]", LENGTH)([1]),
          lambda: kernel("x: read u8[], o: output u32[]", LENGTH)([1])]),
    Case("kernels/data.py", "Fix: give at least one.",
         lambda: called("f32", []), [lambda: called("f32", [1.0])]),
    Case("kernels/data.py", "Fix: {}.", lambda: called("bf16", F32),
         [lambda: called("bf16", F32.view(np.uint16))]),
    Case("kernels/data.py", "Fix: {}.", lambda: called("i32", F32),
         [lambda: called("i32", F32.astype(np.int32))]),
    Case("kernels/data.py", "Fix: keep them in {} to {}.",
         lambda: called("u8", [300]), [lambda: called("u8", [255, 0])]),
    Case("kernels/data.py", "Fix: scale them.",
         lambda: called("f16", [1e9]), [lambda: called("f16", [1e9 / 1e6])]),
    Case("kernels/kernels.py", "Fix: write one.", no_kernel,
         [lambda: kernel("o: output u32[]", "o[gid.x] = 1")]),
    Case("kernels/kernels.py", "Fix: name one of {}.", lambda: kpusim.kernel(VECTORS),
         [lambda: kpusim.kernel(VECTORS, "saxpy")]),
    Case("kernels/kernels.py", "Fix: name one of {}.", lambda: kpusim.kernel(VECTORS, "other"),
         [lambda: kpusim.kernel(VECTORS, "reduce")]),
    Case("kernels/kernels.py", "Fix: give one for each buffer that it reads.", lambda: saxpy(F32),
         [lambda: saxpy(F32, F32, F32[:1])]),
    Case("kernels/kernels.py", "Fix: declare one as output.",
         lambda: kernel("x: read u32[]", "let a = x[gid.x]")([1]),
         [lambda: kernel("x: read u32[], o: output u32[]")([1])]),
    Case("kernels/kernels.py", "Fix: {}.", lambda: called("u32", [1, 2], sizes={"z": 2}),
         [lambda: called("u32", [1, 2], sizes={"o": 2})]),
    Case("kernels/kernels.py", "Fix: {}.", lambda: saxpy(F32, F32, F32[:1], sizes={"z": 2}),
         [lambda: saxpy(F32, F32, F32[:1])]),
    Case("kernels/kernels.py", "Fix: write it like (4, 2).", lambda: called("u32", [1, 2], grid="x"),
         [lambda: called("u32", [1, 2], grid=(2, 1))]),
    Case("nem.py", "Fix: name one of {}.", lambda: loaded().inspect("z"), [lambda: loaded().inspect("x_l2")]),
    Case("nem.py", "Fix: call load first.", lambda: NemInterpreter().run(), [lambda: loaded().run(fill=1)]),
    Case("nem.py", "Fix: name a device.", lambda: loaded(COPY.format(2**27, "u8", 4)),
         [lambda: loaded(COPY.format(2**20, "u8", 4), "npm_lite")]),
    Case("simulation/options.py", "Fix: give a kpusim.SimulationOptions.",
         lambda: kpusim.simulate(RELU, "swkpu-v1", fill=1, options={"mode": "timing"}),
         [lambda: kpusim.simulate(RELU, "swkpu-v1", options=kpusim.SimulationOptions(mode="timing"))]),
    Case("simulation/options.py", "Fix: give one of {}.", lambda: simulation(mode="fast"),
         [lambda: simulation(mode="values+timing"), lambda: simulation(mode="timing"),
          lambda: simulation(mode="functional")]),
    Case("simulation/options.py", "Fix: leave it out.", lambda: simulation(order=3), [simulation]),
    Case("simulation/options.py", "Fix: give 'program', or a seed of 0 or more.",
         lambda: simulation(mode="functional", order="x"),
         [lambda: simulation(mode="functional", order="program"),
          lambda: simulation(mode="functional", order=0)]),
    Case("simulation/options.py", "Fix: give 'fast', 'reference' or a ComputeBackend.",
         lambda: simulation(engine="slow"),
         [lambda: simulation(engine="fast"), lambda: simulation(engine="reference"),
          lambda: simulation(engine=Ones())]),
    Case("simulation/options.py", "Fix: give True, False or 'accesses'.", lambda: simulation(events="all"),
         [lambda: simulation(events=True), lambda: simulation(events=False),
          lambda: simulation(events="accesses")]),
    Case("simulation/options.py", "Fix: leave out events.",
         lambda: simulation(mode="functional", events=True),
         [lambda: simulation(mode="functional")]),
    Case("simulation/options.py", "Fix: give an integer, 0 or more.",
         lambda: simulation(seed=-1), [lambda: simulation(seed=0)]),
    Case("simulation/options.py", "Fix: give an integer, 0 or more, or None.",
         lambda: simulation(max_cycles=-1),
         [lambda: simulation(max_cycles=0), lambda: simulation(max_cycles=None)]),
    Case("simulation/options.py", "Fix: give params={'T': 8}.", lambda: simulation(BATCH, params=5),
         [lambda: simulation(BATCH, params={"T": 8})]),
    Case("simulation/options.py", "Fix: give one of them.", lambda: simulation(strict=5),
         [lambda: simulation(strict=True), lambda: simulation(strict=False)]),
    Case("simulation/options.py", "Fix: leave out the loop values.",
         lambda: simulation(FIXED).read("still", i=0),
         [lambda: simulation(FIXED).read("still")]),
    Case("simulation/options.py", "Fix: give {}.", lambda: loaded().inspect("near", j=0),
         [lambda: loaded().inspect("near", i=0)]),
    Case("simulation/options.py", "Fix: give their values, as {}.", lambda: loaded().inspect("near"),
         [lambda: loaded().inspect("near", i=0)]),
    Case("simulation/options.py", "Fix: give their values, as {}.", lambda: simulation().read("near"),
         [lambda: simulation().read("near", i=0)]),
    Case("simulation/options.py",
         "Fix: see help(kpusim.simulate); parameters of the platform have dots: **{'clock.core_mhz': 800}",
         lambda: kpusim.simulate(RELU, "swkpu-v1", clock=800),
         [lambda: help(kpusim.simulate), lambda: kpusim.simulate(RELU, "swkpu-v1", fill=1, **CORE_MHZ)]),
    Case("simulation/options.py", "Fix: give names and integers.",
         lambda: simulation(BATCH, params={"T": "x"}),
         [lambda: simulation(BATCH, params={"T": 2})]),
    Case("simulation/options.py", "Fix: give one.", lambda: kpusim.simulate(RELU, fill=1, **CORE_MHZ),
         [lambda: kpusim.simulate(RELU, "tile32", fill=1, **CORE_MHZ)]),
    Case("program/program.py", "Fix: give a Program, a path, NEM text, or the bytes of a file.",
         lambda: kpusim.Program.of(5),
         [lambda: kpusim.Program.of(kpusim.Program.of(RELU)), lambda: kpusim.Program.of(LAYERS),
          lambda: kpusim.Program.of(RELU), lambda: kpusim.Program.of(RELU.encode())]),
    Case("program/program.py", "Fix: give its options to kpusim.load.",
         lambda: simulate_digits(kpusim.load(DIGITS, "tile32"), precision="bf16"),
         [lambda: simulate_digits(kpusim.load(DIGITS, "tile32", precision="bf16"))]),
    Case("base/progress.py", "Fix: give a positive number of seconds, or None.",
         lambda: simulation().run(fill=1, timeout=-1),
         [lambda: simulation().run(fill=1, timeout=60.0), lambda: simulation().run(fill=1, timeout=None)]),
    Case("base/progress.py", "Fix: give True, or a function of cycle and tasks.",
         lambda: simulation().run(fill=1, progress=5),
         [lambda: simulation().run(fill=1, progress=True),
          lambda: simulation().run(fill=1, progress=lambda cycle, tasks: None)]),
    Case("run/results.py", "Fix: list(run.stats) has all keys.", lambda: run().stats["cycles"],
         [lambda: [run().stats[key] for key in list(run().stats)]]),
    Case("run/results.py", "Fix: give a positive number.", lambda: run(events=True).events.power(0),
         [lambda: run(events=True).events.power(100)]),
    Case("run/plots.py", "there is no plot {}. Fix: give one of {}.", lambda: run().plot("pie"),
         [lambda: [banked().plot(name) for name in
                   ("units", "stalls", "timeline", "power", "roofline", "memory", "banks", "ops")]]),
    Case("run/plots.py", "Fix: use mode values+timing or timing.", lambda: run(mode="functional").plot(),
         [lambda: run(mode="values+timing").plot(), lambda: run(mode="timing").plot()]),
    Case("run/plots.py", "Fix: give patterns of {}.", lambda: run().plot_timeline(units=["x*"]),
         [lambda: run().plot_timeline(units=["e0_*", "sdma0"])]),
    Case("run/plots.py", "Fix: plot a run that has operations.", lambda: copied("u8", 4, np.ones(4, np.uint8))
         .plot_roofline(), [lambda: run().plot_roofline()]),
    Case("run/plots.py", "Fix: plot a run that reads or writes it.", lambda: banked(INSIDE).plot_banks(),
         [lambda: banked().plot_banks()]),
    Case("run/plots.py", "banks have no count {}. Fix: give one of {}.",
         lambda: banked().plot_banks(count="x"),
         [lambda: [banked().plot_banks(count=name) for name in ("bursts", "row_hits", "turn_arounds")]]),
    Case("run/power.py", "Fix: give one of {}.", lambda: run(events=True).power.by("layer"),
         [lambda: run(events=True).power.by("unit"), lambda: run(events=True).power.by("op")]),
    Case("run/results.py", "Fix: run with events='accesses'.", lambda: run(events=True).events.traffic,
         [lambda: run(events="accesses").events.traffic]),
    Case("run/results.py", "Fix: give (first, last), either may be None.",
         lambda: run().write_trace("vcd", "t.vcd", window=5),
         [lambda: run().write_trace("vcd", "t.vcd", window=(0, 50)),
          lambda: run().write_trace("vcd", "t.vcd", window=(None, 50)),
          lambda: run().write_trace("vcd", "t.vcd", window=(5, None))]),
    Case("run/results.py", "Fix: give a first that is less.",
         lambda: run().write_trace("vcd", "t.vcd", window=(9, 5)),
         [lambda: run().write_trace("vcd", "t.vcd", window=(4, 5))]),
    Case("run/difference.py", "Fix: give such numbers.", lambda: kpusim.diff(run(), run(), threshold=-1),
         [lambda: kpusim.diff(run(), run(), top=0, threshold=0)]),
    Case("run/difference.py", "Fix: give force=True to replace it, or another name.",
         lambda: page_twice("p.html"),
         [lambda: page_twice("q.html", force=True),
          lambda: page_twice("r.html", "s.html")]),
    Case("run/run.py", "Fix: make the Simulation with events={}.", lambda: written().result().events,
         [lambda: written(events=True).result().events]),
    Case("run/run.py", "save. Fix: use mode values+timing or timing.",
         lambda: run(mode="functional").what_if(),
         [lambda: run(mode="values+timing").what_if(), lambda: run(mode="timing").what_if()]),
    Case("run/run.py", "Fix: use the run before that, or make runs with kpusim.simulate.",
         lambda: overtaken(False),
         [lambda: overtaken(True), lambda: kpusim.simulate(RELU, "swkpu-v1", fill="zeros").report()]),
    Case("run/run.py", "trace. Fix: use mode values+timing or timing.", lambda: run(mode="functional").events,
         [lambda: run(mode="values+timing").events, lambda: run(mode="timing").events]),
    Case("schedule/engine.py", "Fix: give that shape, or as many elements in one dimension.",
         lambda: tensor().set_tensor("A", np.ones((3, 2))),
         [lambda: tensor().set_tensor("A", np.ones((2, 3))), lambda: tensor().set_tensor("A", np.ones(6))]),
    Case("schedule/engine.py", "Fix: give integers.", lambda: tensor("i8").set_tensor("A", np.ones(6)),
         [lambda: tensor("i8").set_tensor("A", np.ones(6, np.int64))]),
    Case("schedule/engine.py", "Fix: give a whole number.", lambda: Runtime(-1), [lambda: Runtime(65536)]),
    Case("schedule/engine.py", "Fix: give as much room.",
         lambda: engine().get_tensor("A", np.ones(5, np.float32)),
         [lambda: engine().get_tensor("A", np.ones((2, 3), np.float32))]),
    Case("schedule/engine.py", "Fix: give an array that can be written.",
         lambda: engine().get_tensor("A", read_only()),
         [lambda: engine().get_tensor("A", read_only().copy())]),
    Case("schedule/engine.py", "Fix: give {}.", lambda: engine().get_tensor("A", np.ones(6, np.int32)),
         [lambda: engine().get_tensor("A", np.ones(6, np.float32))]),
    Case("schedule/engine.py", "Fix: give two extents.", lambda: Runtime().register_tensor("A", (2, 3, 4)),
         [lambda: Runtime().register_tensor("A", (2, 12))]),
    Case("schedule/scheduler.py", "Fix: give another name.",
         lambda: graph("a", "a"), [lambda: graph("a", "b")]),
    Case("simulation/simulation.py", "Fix: raise timeout.", lambda: functional(LONG, timeout=1e-9),
         [lambda: functional(LONG, timeout=100)]),
    Case("simulation/simulation.py", "Fix: raise max_cycles.", lambda: run(max_cycles=10),
         [lambda: run(max_cycles=10**6)]),
    Case("simulation/simulation.py", "mapping. Fix: give a mapping of names to arrays.",
         lambda: simulation().run(5),
         [lambda: simulation().set_inputs({"x": X})]),
    Case("simulation/simulation.py", "Fix: give an integer, 0 or more.",
         lambda: simulation(mode="timing").step(-1),
         [lambda: simulation(mode="timing").step(0)]),
    Case("simulation/simulation.py", "Fix: give a list of str, or a generator.", lambda: filled().debug(5),
         [lambda: filled().debug(["continue"]), lambda: filled().debug(verb for verb in ["continue"])]),
    Case("simulation/simulation.py", "Fix: leave out the loop values.", lambda: filled().read("x", i=0),
         [lambda: filled().read("x")]),
    Case("simulation/simulation.py", "Fix: call result().", lambda: written().stats_so_far(),
         [lambda: written().result().stats]),
    Case("simulation/simulation.py", "Fix: name one of {}.",
         lambda: filled().read("z"), [lambda: filled().read("x_l2")]),
    Case("simulation/simulation.py", "Fix: give them different names.",
         lambda: filled(RELU + LOOP.format("dst")).read("dst", i=0),
         [lambda: filled(RELU + LOOP.format("other")).read("dst", i=0)]),
    Case("simulation/simulation.py", "Fix: give an array for each, or fill='zeros'.",
         lambda: simulation().run(),
         [lambda: simulation().run({"x": X}), lambda: simulation().run(fill="zeros")]),
    Case("simulation/simulation.py", "Fix: add the missing dependencies; run.hazards lists them.",
         lambda: simulation(RACY).run(fill=1),
         [lambda: simulation(RELU).run(fill=1)]),
    Case("simulation/simulation.py", "Fix: add the missing dependencies.",
         lambda: simulation(RACY, strict=True).run(fill=1),
         [lambda: simulation(RELU, strict=True).run(fill=1)]),
    Case("simulation/simulation.py", "Fix: leave out mode.",
         lambda: kpusim.Simulation(kpusim.load(LAYERS), "tile32", mode="functional"),
         [lambda: kpusim.Simulation(kpusim.load(LAYERS), "tile32").run()]),
    Case("simulation/simulation.py", "input. Fix: give a mapping of names to arrays.",
         lambda: simulation().run({5: X}),
         [lambda: simulation().run({"x": X})]),
    Case("simulation/simulation.py", "Fix: give 'zeros', or a seed of 0 or more.",
         lambda: simulation().run(fill="ones"),
         [lambda: simulation().run(fill="zeros"), lambda: simulation().run(fill=0)]),
    Case("run/timeline.py", "Fix: give one of {}.", lambda: run().timeline.of("e9"),
         [lambda: run().timeline.of("sdma0")]),
    Case("run/traffic.py", "Fix: give one of {}.",
         lambda: run().traffic.bytes_of("l3", "read"),  # type: ignore[arg-type]
         [lambda: run().traffic.bytes_of("dram", "read"), lambda: run().traffic.bytes_of("l1", "write")]),
    Case("run/traffic.py", "Fix: give 0.001 or more.", lambda: run().traffic.over_time("l2", "read", 0),
         [lambda: run().traffic.over_time("l2", "read", 0.001)]),
    Case("base/tables.py", "Fix: there are {}.", lambda: kpusim.load(DIGITS, precison="bf16"),
         [lambda: kpusim.load(DIGITS, "tile32", precision="bf16", batch=2)]),
]  # fmt: skip

#: Texts that cannot be followed here, and why.
REASONS = {
    ("errors/__init__.py", "Fix: "): "finds the fix in a message, and gives none",
    ("errors/__init__.py", " Fix: {}"): "prints the fix of any finding, and has none of its own",
    ("base/extras.py", "kpusim[{}]"): "to follow is to install a package",
}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """Every fix is played; tests/deploy and tests/pallas have those of kpu, torch and pallas."""
    check_complete("", CASES, REASONS)


def exists(name: str) -> bool:
    """Return whether a dotted name can be reached."""
    import importlib

    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def keywords() -> set[str]:
    """Return the names of all parameters of the package's functions, and options of its front ends."""
    names = {option.name for front_end in kpusim.front_ends() for option in front_end.options}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                names |= {arg.arg for arg in [*node.args.args, *node.args.kwonlyargs]}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def test_fixes_name_what_exists() -> None:
    """Functions, modules and keywords that any fix of the package names."""
    known = keywords()
    assert len(texts()) > 100
    for text in texts():
        place, fix = f"{text.file}:{text.line}", text.text.rpartition("Fix: ")[2]
        for name in re.findall(r"\bkpusim(?:\.\w+)+", fix):
            assert exists(name), f"{place}: {name} does not exist"
        for name in re.findall(r"(?<![\w.'{])([a-z_]+)=(?!=)", fix):
            assert name in known, f"{place}: {name}= is no keyword"
        for name in re.findall(r"docs/\w+\.md", fix):
            assert (ROOT / name).is_file(), f"{place}: {name} does not exist"
