"""`dot` of kernels with tiles on the engine's array: time, contention with gemm tasks, what has no rate.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_products
"""

from __future__ import annotations

import csv
import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import NamedTuple

import numpy as np

KPUSIM = os.environ["KPUSIM"]
BYTES = {"f32": 4, "i8": 1, "i32": 4}
NUMPY = {"f32": np.float32, "i8": np.int8, "i32": np.int32}


class Shape(NamedTuple):
    """Shape of a product: m x k by k x n."""

    m: int
    n: int
    k: int


def kernel(name: str, shape: Shape, elem: str, out: str, body: str) -> str:
    """With `p` and `q` as operands; `body` has PRODUCT where it multiplies them, and sets `r`."""
    m, n, k = shape
    buffers = f"a: read {elem}[{m * k}], b: read {elem}[{k * n}], y: write {out}[{m * n}]"
    return f"""
kernel {name} rules(xla) workgroup(1) ({buffers}):
    let p = a[window{{{m}, {k}}}()]
    let q = b[window{{{k}, {n}}}()]
    {body.replace("PRODUCT", f"dot{{{out}, 1, 1, 1, 0, 0, 0}}(p, q)")}
    y[window{{{m}, {n}}}()] = r
endkernel
"""


def program(tasks: str, shape: Shape, elem: str, out: str, engine: int = 0) -> str:
    """Operands a1, b1 and results y1, z1 in L1, ready after ta and tb; y0 and z0 in DDR."""
    m, n, k = shape
    sizes = {"a": (m, k, elem), "b": (k, n, elem), "y": (m, n, out), "z": (m, n, out)}
    lines = ["program p:", "#! kernels k.kern"]
    at = 0
    regions = []
    for name, (rows, cols, kind) in sizes.items():
        size = rows * cols * BYTES[kind]
        lines.append(f"buffer {name} : DDR (size = {size})")
        typed = f"elem={kind}, shape=[{rows}, {cols}], layout=MN"
        regions.append(f"let {name}0 = region({name}, 0, {size}) {typed}")
        regions.append(f"let {name}1 = region(s, {at}, {size}) {typed}")
        at += (size + 63) // 64 * 64
    lines += [f"buffer s : L1[{engine}] (size = {at})", *regions]
    lines += ["ta = transfer.async(dst=a1, src=a0)", "tb = transfer.async(dst=b1, src=b0)"]
    lines += [tasks.replace("FIRST", "a1, b1 out y1").replace("SECOND", "a1, b1 out z1")]
    return "\n".join(lines) + "\n"


class Run(NamedTuple):
    """Results of a run."""

    stats: dict[str, dict[str, float]]
    outputs: dict[str, np.ndarray]
    rows: list[dict[str, str]]
    kernels: list[dict[str, str]]

    def unit(self, cause: str, unit: str = "e0_nmu0") -> int:
        """Return the cycles of a cause."""
        return int(self.stats[f"units.{unit}.{cause}"]["value"])

    def last_busy(self, task: str, unit: str = "e0_nmu0") -> int:
        """Where the unit's last work for a task ends, in ps."""
        return max(
            int(r["end_ps"])
            for r in self.rows
            if r["unit"] == unit and r["task"] == task and r["cause"].startswith("busy")
        )


class Products(unittest.TestCase):
    """Programs with a kernel `mm` and perhaps a gemm task on the same array."""

    SQUARE = Shape(32, 32, 32)
    LAUNCH = 'k = compute.async in FIRST op="mm" deps=[ta, tb]\nsy = transfer.async(dst=y0, src=y1, deps=[k])'
    GEMM = (
        "g = gemm.async in SECOND accum_type=f32 deps=[WAIT]\nsz = transfer.async(dst=z0, src=z1, deps=[g])"
    )

    def run_it(
        self, text: str, shape: Shape, *, tasks: str, elem: str = "f32", out: str = "f32", engine: int = 0,
        platform: str = "tile32", options: tuple[str, ...] = (),
    ) -> Run:  # fmt: skip
        """Values and time of a program; the values are those of functional mode, and those of NumPy."""
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            (work / "k.kern").write_text(text)
            (work / "p.nem").write_text(program(tasks, shape, elem, out, engine))
            rng = np.random.default_rng(1)
            a = rng.integers(-5, 6, (shape.m, shape.k)).astype(NUMPY[elem])
            b = rng.integers(-5, 6, (shape.k, shape.n)).astype(NUMPY[elem])
            np.save(work / "a.npy", a)
            np.save(work / "b.npy", b)
            command = [KPUSIM, "run", str(work / "p.nem"), "--platform", platform, "--quiet", *options]
            command += ["--input", f"a={work}/a.npy", "--input", f"b={work}/b.npy"]
            timed = [*command, "-o", str(work / "t"), "--stalls", str(work / "stalls.csv")]
            subprocess.run(timed, check=True, timeout=120)
            subprocess.run([*command, "--mode", "functional", "-o", str(work / "f")], check=True, timeout=120)
            outputs = {f.stem: np.load(f) for f in (work / "t" / "outputs").iterdir()}
            exact = a.astype(np.int64) @ b.astype(np.int64)
            for name, value in outputs.items():
                np.testing.assert_array_equal(value, np.load(work / "f" / "outputs" / f"{name}.npy"))
                np.testing.assert_array_equal(value.reshape(exact.shape), exact)
            with (work / "stalls.csv").open() as file:
                rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
            profile = work / "t" / "kernels.csv"
            kernels = list(csv.DictReader(profile.read_text().splitlines())) if profile.exists() else []
            return Run(json.loads((work / "t" / "stats.json").read_text())["stats"], outputs, rows, kernels)

    def once(self, shape: Shape, **options: object) -> Run:
        """Return a kernel that multiplies once."""
        elem, out = str(options.get("elem", "f32")), str(options.get("out", "f32"))
        text = kernel("mm", shape, elem, out, "let r = PRODUCT")
        return self.run_it(text, shape, tasks=self.LAUNCH, **options)  # type: ignore[arg-type]

    def test_time_is_the_arrays(self) -> None:
        """Terms of model/timing/systolic.md, by hand: an output-stationary physical array of 32 x 32."""
        run = self.once(self.SQUARE)
        self.assertEqual(run.unit("busy.useful"), 32)
        self.assertEqual(run.unit("busy.padding"), 0)
        self.assertEqual(run.unit("busy.fill_drain"), (32 + 32 - 2) + 32)
        self.assertEqual(run.stats["ops.macs"]["value"], 32**3)
        self.assertGreater(run.stats["utilization.compute"]["value"], 0)
        self.assertGreaterEqual(
            run.unit("stalled.dependency", "e0_vpu0") + run.unit("stalled.dependency", "e0_cstl0"), 126
        )
        run = self.once(Shape(40, 32, 16))  # two folds of 16 cycles, which a drain of 32 keeps apart
        self.assertEqual(run.unit("busy.useful"), 40 * 32 * 16 // 1024)
        self.assertEqual(run.unit("busy.padding"), 32 - 20)
        self.assertEqual(run.unit("busy.fill_drain"), (32 + 32 - 2) + 16 + 32)

    def test_as_a_gemm_task(self) -> None:
        """The same causes and bytes of L1 as the task on every kind of array, beside those of the lanes."""
        for sets in ((), ("dataflow=ws",), ("dataflow=is", "timing=compat"), ("rows=16", "cols=64")):
            with self.subTest(sets=sets):
                options = tuple(word for s in sets for word in ("--set", f"engine.array.{s}"))
                shape = Shape(48, 80, 72)
                dot = self.once(shape, options=options)
                text = kernel("mm", shape, "f32", "f32", "let r = PRODUCT")
                task = self.GEMM.replace("WAIT", "ta, tb")
                gemm = self.run_it(text, shape, tasks=task, options=options)
                for cause in ("busy.useful", "busy.padding", "busy.fill_drain"):
                    self.assertEqual(dot.unit(cause), gemm.unit(cause), cause)
                lanes = 4 * (shape.m * shape.k + shape.k * shape.n)
                self.assertEqual(
                    dot.stats["bytes.l1.read"]["value"] - lanes, gemm.stats["bytes.l1.read"]["value"]
                )
                energy = [f"energy.count.array.{action}" for action in ("mac.f32", "pe.shift", "pe.idle")]
                for stat in ("ops.macs", "utilization.array.spatial", *energy):
                    self.assertEqual(dot.stats[stat]["value"], gemm.stats[stat]["value"], stat)

    LONG = Shape(32, 32, 512)
    SMALL = (
        "--set",
        "engine.array.rows=8",
        "--set",
        "engine.array.cols=8",
        "--fill",
        "zeros",
    )  # 16 folds of 512

    def stalled(self, run: Run) -> int:
        """Return the cycles for which the kernel waited for its product."""
        return next(int(r["stalled_cycles"]) for r in run.kernels if "dot" in r["statement"])

    def test_a_gemm_delays_the_dot(self) -> None:
        """It has the array first: the kernel comes to its product 1,029 cycles later."""
        text = kernel("mm", self.LONG, "f32", "f32", "let r = PRODUCT")
        alone = self.run_it(text, self.LONG, tasks=self.LAUNCH, options=self.SMALL)
        tasks = self.GEMM.replace("WAIT", "ta, tb") + "\n" + self.LAUNCH
        both = self.run_it(text, self.LONG, tasks=tasks, options=self.SMALL)
        self.assertGreater(self.stalled(both), self.stalled(alone) + 16 * 512 - 2000)
        refused = [
            sum(run.unit("stalled.structural", f"e0_{u}") for u in ("vpu0", "cstl0")) for run in (alone, both)
        ]
        self.assertEqual(refused[0], 0)
        self.assertGreater(refused[1], 16 * 512 - 2000)

    def test_a_dot_delays_the_gemm(self) -> None:
        """A gemm that becomes ready while the array has a kernel's product."""
        text = kernel("mm", self.LONG, "f32", "f32", "let r = PRODUCT")
        chain = [f"t{i} = transfer.async(dst=z1, src=z0, deps=[t{i - 1}])" for i in range(1, 9)]
        chain[0] = "t1 = transfer.async(dst=z1, src=z0, deps=[tb])"
        tasks = "\n".join([*chain, self.GEMM.replace("WAIT", "ta, tb, t8")])
        alone = self.run_it(text, self.LONG, tasks=tasks, options=self.SMALL)
        both = self.run_it(text, self.LONG, tasks=self.LAUNCH + "\n" + tasks, options=self.SMALL)
        ready = [int(r["end_ps"]) for r in both.rows if r["task"] == "t8"]
        self.assertGreater(both.last_busy("k"), max(ready))  # the product is under way
        self.assertGreater(both.last_busy("g"), alone.last_busy("g") + 2_000_000)

    def test_types_without_a_rate(self) -> None:
        """The lanes do what the array cannot: a multiplication for each element of each step."""
        for elem, platform in (("i32", "tile32"), ("f32", "npm_lite")):
            with self.subTest(elem=elem):
                run = self.once(Shape(16, 8, 4), elem=elem, out=elem, platform=platform)
                self.assertEqual(run.unit("busy.useful") + run.unit("busy.fill_drain"), 0)
                self.assertEqual(run.stats["ops.macs"]["value"], 0)
                row = next(r for r in run.kernels if "dot" in r["statement"])
                lanes = 32 if platform == "tile32" else 64
                self.assertEqual(int(row["busy_cycles"]), 1 + 16 * 8 * 4 // lanes)
                self.assertEqual(int(row["stalled_cycles"]), 0)

    def test_own_engine(self) -> None:
        """The array of the engine whose L1 the operands lie in; i8 operands, an i32 result."""
        run = self.once(Shape(32, 64, 16), elem="i8", out="i32", engine=1, platform="npm_mid")
        self.assertEqual(run.stats["ops.macs"]["value"], 32 * 64 * 16)
        self.assertGreater(run.unit("busy.useful", "e1_nmu0") + run.unit("busy.padding", "e1_nmu0"), 0)
        self.assertEqual(run.unit("busy.fill_drain", "e0_nmu0"), 0)

    def test_stopped_in_a_product(self) -> None:
        """A limit on the cycles, and a debugger, between the begin and the end of a product."""
        with tempfile.TemporaryDirectory() as folder:
            work = Path(folder)
            (work / "k.kern").write_text(kernel("mm", self.SQUARE, "f32", "f32", "let r = PRODUCT"))
            (work / "p.nem").write_text(program(self.LAUNCH, self.SQUARE, "f32", "f32"))
            options = [str(work / "p.nem"), "--platform", "tile32", "--fill", "random:1"]
            whole = [KPUSIM, "run", *options, "--quiet", "-o", str(work / "whole")]
            subprocess.run(whole, check=True, timeout=120)
            profile = list(csv.DictReader((work / "whole" / "kernels.csv").read_text().splitlines()))
            self.assertGreater(int(profile[2]["stalled_cycles"]), 100)
            done = subprocess.run(
                [*whole[:-1], str(work / "cut"), "--max-cycles", "520"],
                check=False,
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertFalse(json.loads((work / "cut" / "stats.json").read_text())["complete"])
            steps = "\n".join(["cycle 520", "units", "tasks", *["cycle 7"] * 40, "continue"])
            session = subprocess.run(
                [KPUSIM, "debug", *options],
                input=steps,
                check=True,
                capture_output=True,
                text=True,
                timeout=120,
            ).stdout
            self.assertRegex(session, r"e0_nmu0 +busy\.")
            self.assertRegex(session, r"e0_(vpu|cstl)0 +stalled\.dependency")
            total = json.loads((work / "whole" / "stats.json").read_text())["stats"]["cycles.total"]["value"]
            self.assertIn(f"the program is finished at cycle {int(total)}", session)

    def test_bindings(self) -> None:
        """Every vector unit asks its own engine's sequencer."""
        for platform in ("tile32", "npm_mid"):
            lines = subprocess.run(
                [KPUSIM, "list", "modules", "--platform", platform],
                check=True,
                capture_output=True,
                text=True,
            ).stdout.split("\n")
            bound = [line.strip() for line in lines if ".product " in line]
            units = [line.split()[0] for line in lines if "(vector_unit)" in line]
            self.assertEqual(
                sorted(bound), sorted(f"{u}.product -> {u.split('_')[0]}_seq.products" for u in units)
            )


if __name__ == "__main__":
    unittest.main()
