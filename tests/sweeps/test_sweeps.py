"""Points that a sweep runs, and the files that it leaves."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import pytest
from conftest import GEMM, ROOT
from kpusim.sweeps.designs import Space, designs_of
from kpusim.sweeps.front import dominates, front_of, hypervolume
from kpusim.sweeps.knobs import knobs_of
from kpusim.sweeps.reading import read_spec

Command = Callable[..., subprocess.CompletedProcess[str]]

# ---- what is run


def rows_of(folder: Path) -> list[dict[str, str]]:
    """Return the table on disk."""
    with (folder / "table.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_table(spec: Path, tmp_path: Path, command: Command) -> None:
    """A row for each combination, in order, with units; the same bytes with one worker or three."""
    tables = set()
    for workers in (1, 3):
        folder = tmp_path / f"out{workers}"
        said = command(spec, "-o", folder, "--workers", workers).stdout
        tables.add((folder / "table.csv").read_bytes())
    assert len(tables) == 1
    assert "18 points, 0 failed" in said
    rows = rows_of(folder)
    expected = itertools.product([16, 32, 64], [1 << 20, 1 << 21, 1 << 22], [1, 2])
    assert [
        (int(r["engine.array.rows"]), int(r["l2.size_bytes"]), int(r["ddr.channels"])) for r in rows
    ] == list(expected)
    assert all(row["engine.array.cols"] == row["engine.array.rows"] for row in rows)
    with (folder / "columns.csv").open(newline="") as file:
        columns = {row["name"]: row for row in csv.DictReader(file)}
    assert list(columns) == list(rows[0])
    assert columns["power.average_w"]["unit"] == "W" and all(row["meaning"] for row in columns.values())
    # causes of a kind of unit cover its time
    for row in rows:
        causes = [int(value) for name, value in row.items() if name.startswith("causes.device.") and value]
        assert sum(causes) == int(row["cycles.total"])


def test_points_equal_single_runs() -> None:
    """Statistics of random points are those of single runs of the command, to the last digit."""
    words = [sys.executable, str(ROOT / "tests/sweeps/single_runs.py"), os.environ["KPUSIM"]]
    run = subprocess.run([*words, "--points", "12"], capture_output=True, text=True, check=False)
    assert run.returncode == 0 and "12 points" in run.stdout, run.stdout + run.stderr


def test_what_follows_from_axes(tmp_path: Path) -> None:
    """Formulas and constraints see what follows from an axis: an array's ports from its rows."""
    stated: dict[str, Any] = {"programs": [GEMM], "platforms": ["npm_lite"]}
    axes = {"engine.array.rows": [16, 128], "engine.l1.ports": "engine.array.operand_bytes_per_cycle / 16"}
    spec = read_spec(None, {**stated, "axes": axes})
    ports = [design.values["engine.l1.ports"] for design in designs_of(spec, Space(spec))]
    lite = kpusim.Platform.load("npm_lite")
    texts = [lite.with_(**{"engine.array.rows": rows}).text() for rows in (16, 128)]
    widths = [text.split("operand_bytes_per_cycle: ")[1].split()[0] for text in texts]
    assert ports == [int(width) / 16 for width in widths] and ports[0] < ports[1]
    rule = f"engine.array.operand_bytes_per_cycle <= {widths[0]}"
    spec = read_spec(None, {**stated, "axes": {"engine.array.rows": [16, 128]}, "constraints": [rule]})
    assert [design.values["engine.array.rows"] for design in designs_of(spec, Space(spec))] == [16]


def test_operating_points(tmp_path: Path) -> None:
    """A pair of voltage and frequency is a value of an axis: time by the frequency, energy by the voltage."""
    (tmp_path / "dvfs.textproto").write_text("""name: "dvfs" extends: "edge16" clock {
        point { name: "eco" mhz: 200 vdd: 0.6 } point { name: "turbo" mhz: 400 vdd: 1.0 } }""")
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[GEMM], platforms=[tmp_path / "dvfs.textproto"],
        axes={"clock.core_point": ["eco", "turbo", "none"]},
    )  # fmt: skip
    eco, turbo, plain = results.rows
    assert turbo["time.total_us"] == plain["time.total_us"] < eco["time.total_us"]
    for component in ("l1", "l2", "noc"):  # 0.8 V without a point
        name, static = f"energy.by_component.{component}_uj", f"energy.static.{component}_uj"
        dynamic = [float(row[name]) - float(row[static]) for row in (eco, turbo, plain)]
        assert dynamic[:2] == pytest.approx([dynamic[2] * 0.5625, dynamic[2] * 1.5625])


def test_parameters_options_and_failures(tmp_path: Path, relu_with_parameter: Path) -> None:
    """Parameters of programs are axes; a point that fails is a row with its error, and others go on."""
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[relu_with_parameter], platforms=["npm_lite"],
        axes={"param.n": [1, 2, 4], "l2.size_bytes": ["1KiB", "1MiB"]},
    )  # fmt: skip
    assert [bool(row["error"]) for row in results.rows] == [True, False] * 3
    assert "capacity" in results.rows[0]["error"] or "L2" in results.rows[0]["error"]
    cycles = [row["cycles.total"] for row in results.rows if not row["error"]]
    assert cycles == sorted(cycles) and cycles[0] < cycles[-1]


def test_all_failed(tmp_path: Path, relu_with_parameter: Path, command: Command) -> None:
    """Exit 1, and the first error is shown."""
    said = command("--program", relu_with_parameter, "--platform", "npm_lite", "--axis", "l2.size_bytes=1KiB",
                   "-o", tmp_path / "out", code=1)  # fmt: skip
    assert "1 points, 1 failed" in said.stdout and "Fix: " in said.stdout


@pytest.fixture
def relu_with_parameter(tmp_path: Path) -> Path:
    """Y = relu(x) on n tiles."""
    path = tmp_path / "relu.nem"
    path.write_text("""#! param n = 2 in [1..4]
program tiles:
buffer x : DDR (size = 65536)
buffer y : DDR (size = 65536)
buffer m : L2 (size = 8192)
loop i in [0..n - 1]:
    a = transfer.async(dst=region(m, 0, 4096), src=region(x, i * 4096, 4096))
    b = transfer.async(dst=region(y, i * 4096, 4096), src=region(m, 0, 4096), deps=[a])
endloop
""")
    return path


@pytest.mark.parametrize("sample", [{"random": 20}, {"lhs": 20}, {"sobol": 20}])
def test_samples(sample: dict[str, int], tmp_path: Path) -> None:
    """Different designs, the same again by the same seed, others by another."""
    stated: dict[str, Any] = {
        "programs": [GEMM], "platforms": ["npm_lite"], "sample": sample,
        "axes": {"engine.array.rows": "4..64+4", "l2.banks": "1..64*2", "clock.core_mhz": "100..1000+50"},
    }  # fmt: skip

    def drawn(seed: int) -> list[dict[str, Any]]:
        spec = read_spec(None, {**stated, "seed": seed})
        return [dict(design.values) for design in designs_of(spec, Space(spec))]

    first = drawn(1)
    assert first == drawn(1) != drawn(2)
    assert 15 <= len(first) <= 20 and len({json.dumps(values) for values in first}) == len(first)


def test_search(tmp_path: Path) -> None:
    """A search finds the front of a small grid with fewer points, the same with one worker or two."""
    stated: dict[str, Any] = {
        "programs": [GEMM], "platforms": ["npm_lite"], "generation": 8, "seed": 3,
        "axes": {"engine.array.rows": "8..64*2", "clock.core_mhz": "100..1000+100", "ddr.channels": "1..4"},
    }  # fmt: skip
    tables = []
    for workers in (1, 2):
        results = kpusim.sweep(
            folder=tmp_path / str(workers), sample={"search": 64}, workers=workers, **stated
        )
        tables.append((tmp_path / str(workers) / "table.csv").read_bytes())
    assert tables[0] == tables[1] and len(results.rows) == 64
    grid = kpusim.sweep(folder=tmp_path / "grid", **stated)
    names = ["time.total_us", "energy.total_uj"]
    vectors = [[tuple(row[name] for name in names) for row in of.rows] for of in (grid, results)]
    reference = tuple(max(vector[index] for vector in vectors[0]) for index in (0, 1))
    volumes = [hypervolume(of, reference) for of in vectors]  # type: ignore[arg-type]
    assert volumes[1] > 0.95 * volumes[0]


def test_auto(tmp_path: Path) -> None:
    """With predictions first, the front is that of the full simulation, for fewer simulations."""
    model = small_model(tmp_path / "net.onnx")
    stated: dict[str, Any] = {
        "programs": [model], "platforms": ["tile32"], "options": {"precision": "fp16", "effort": 1},
        "axes": {"engine.array.rows": "8..64*2", "engine.array.cols": "8..64*2", "ddr.channels": "1..2",
                 "l2.banks": [4, 32]},
        "generation": 8,
    }  # fmt: skip
    full = kpusim.sweep(folder=tmp_path / "full", **stated)
    auto = kpusim.sweep(folder=tmp_path / "auto", fidelity="auto", **stated)
    assert len(auto.rows) == len(full.rows) == 64
    simulated = [row for row in auto.rows if row["fidelity"] == "simulate"]
    assert 0 < len(simulated) < len(full.rows)
    for row in simulated:
        assert row["cycles.total"] == full.rows[row["point"]]["cycles.total"]
    names = ["time.total_us", "energy.total_uj"]
    reference = tuple(1.01 * max(row[name] for row in full.rows) for name in names)
    volumes = [
        hypervolume([tuple(full.rows[row["point"]][name] for name in names) for row in of], reference)  # type: ignore[arg-type]
        for of in (full.front(), [row for row in auto.front() if row["fidelity"] == "simulate"])
    ]
    assert volumes[1] >= 0.995 * volumes[0]
    assert any("designs were simulated" in note for note in auto.notes)


def small_model(path: Path) -> Path:
    """Return two convolutions and a product."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(1)
    shapes = {"w0": (16, 8, 3, 3), "w1": (32, 16, 3, 3), "w2": (32, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w0"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Conv", ["b", "w1"], ["c"], strides=[2, 2]),
        helper.make_node("GlobalAveragePool", ["c"], ["d"]),
        helper.make_node("Flatten", ["d"], ["e"]), helper.make_node("MatMul", ["e", "w2"], ["y"]),
    ]  # fmt: skip
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 8, 24, 24))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))],
        [numpy_helper.from_array(draw.normal(size=s).astype(np.float32), n) for n, s in shapes.items()],
    )  # fmt: skip
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_kept_networks_are_the_same(tmp_path: Path) -> None:
    """A network compiled for another device, from what was kept, is the program of a fresh compilation."""
    model = small_model(tmp_path / "net.onnx")
    first = kpusim.load(model, "tile32", precision="int8", calibrate="random:1")
    for name, changes in [
        ("tile32", {"engine.l1.size_bytes": 32768}), ("npm_pro", {}), ("tile32", {"engine.array.rows": 8}),
        ("swkpu-v1", {}), ("swkpu-v1", {"ddr.channels": 1}), ("tile32", {}),
    ]:  # fmt: skip
        platform = kpusim.Platform.load(name).with_(**changes)
        kept = first.made_for(platform)
        fresh = kpusim.load(model, platform, precision="int8", calibrate="random:1")
        assert kept.to_bytes() == fresh.to_bytes(), (name, changes)
        assert kept.diagnostics == fresh.diagnostics


# ---- fronts and knobs, recomputed


def test_fronts_against_all_pairs() -> None:
    """The front is what no pair rules out; volumes agree with sampling."""
    draw = np.random.default_rng(2)
    for count, size in ((1, 3), (40, 2), (60, 3), (30, 4)):
        vectors = {i: tuple(float(v) for v in draw.integers(0, 12, size)) for i in range(count)}
        expected = [i for i, a in vectors.items() if not any(dominates(b, a) for b in vectors.values())]
        assert front_of(vectors) == expected
        if size <= 3:
            reference = (12.0,) * size
            points = draw.uniform(0, 12, (40000, size))
            covered = np.zeros(len(points), dtype=bool)
            for vector in vectors.values():
                covered |= (points >= np.array(vector)).all(axis=1)
            assert math.isclose(
                hypervolume(list(vectors.values()), reference), covered.mean() * 12**size, rel_tol=0.05
            )


def test_knobs_from_the_table(spec: Path, tmp_path: Path, command: Command) -> None:
    """Each claim follows from the rows that it names, by pandas on the CSV."""
    import pandas

    command(spec, "-o", tmp_path / "out")
    frame = pandas.read_csv(tmp_path / "out/table.csv")
    results = kpusim.SweepResults(tmp_path / "out")
    assert set(frame.columns) == set(results.to_pandas().columns)
    for statistic in ("time.total_us", "energy.total_uj"):
        log = np.log(frame[statistic])
        knobs = knobs_of(results, statistic)
        assert "full grid" in knobs.method and len(knobs.rows) == 18
        for knob in knobs.knobs:
            means = log.groupby(frame[knob.axis]).mean()
            counts = frame.groupby(knob.axis).size()
            between = (counts * (means - log.mean()) ** 2).sum() / len(frame)
            assert math.isclose(knob.share, between / log.var(ddof=0), rel_tol=1e-9, abs_tol=1e-12)
            named = frame.iloc[list(knob.effect.rows)]
            ends = np.log(named[statistic]).groupby(named[knob.axis]).mean()
            assert math.isclose(knob.effect.numbers["ratio"], math.exp(ends.max() - ends.min()), rel_tol=1e-9)
            assert knob.causes is not None and len(knob.causes.rows) == 2
            others = [
                axis for axis in ("engine.array.rows", "l2.size_bytes", "ddr.channels") if axis != knob.axis
            ]
            assert knob.along is not None and all(
                frame.iloc[list(knob.along.rows)][axis].nunique() == 1 for axis in others
            )
            if knob.knee and "knee" in knob.knee.numbers:
                at = means.loc[knob.knee.numbers["knee"]]
                assert at - means[means.index >= knob.knee.numbers["knee"]].min() <= math.log(1.02) + 1e-12
        total = sum(knob.share for knob in knobs.knobs) + sum(share for *_, share in knobs.pairs)
        assert total <= 1 + 1e-9


def test_knobs_of_a_sample(tmp_path: Path) -> None:
    """A sample is estimated by SALib; the axis that decides comes first."""
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[GEMM], platforms=["npm_lite"], sample={"lhs": 60},
        axes={"clock.core_mhz": "100..2000+100", "l2.write_latency_cycles": "1..8",
              "ddr.controller_latency_ns": "10..30", "l2.ports": [4]},
    )  # fmt: skip
    knobs = knobs_of(results, "time.total_us")
    assert "l2.ports" not in {knob.axis for knob in knobs.knobs}, "an axis of one value is no knob"
    assert "SALib" in knobs.method and knobs.knobs[0].axis == "clock.core_mhz" and knobs.knobs[0].share > 0.5


# ---- results


def test_sql_parquet_and_frames(spec: Path, tmp_path: Path, command: Command) -> None:
    """The table through DuckDB and pandas is the table."""
    import pandas

    out = tmp_path / "out"
    command(spec, "-o", out)
    results = kpusim.SweepResults(out)
    [(least,)] = results.sql('select min("time.total_us") from points')
    assert least == min(row["time.total_us"] for row in results.rows)
    assert (
        command("sql", out, "select count(*) from points where front = 1").stdout
        == f"{len(results.front())}\n"
    )
    assert "Fix: " in command("sql", out, "select nothing from nowhere", code=1).stderr
    command("parquet", out, "-o", tmp_path / "t.parquet")
    assert "exists" in command("parquet", out, "-o", tmp_path / "t.parquet", code=1).stderr
    frame = results.to_pandas()
    assert frame.attrs["units"]["energy.total_uj"] == "uJ"
    assert list(frame["cycles.total"]) == list(pandas.read_csv(out / "table.csv")["cycles.total"])


def test_show_and_diff(spec: Path, tmp_path: Path, command: Command) -> None:
    """A point runs again as it was, with what explains it; two points have their differences."""
    out = tmp_path / "out"
    command(spec, "-o", out)
    rows = rows_of(out)
    shown = command("show", out, 4, "-o", tmp_path / "run").stdout
    assert f"--set l2.size_bytes={rows[4]['l2.size_bytes']}" in shown and "critical path" in shown
    stats = json.loads((tmp_path / "run/stats.json").read_text())["stats"]
    assert str(stats["cycles.total"]["value"]) == rows[4]["cycles.total"]
    assert (tmp_path / "run/events.kpuev").exists()
    differs = command("diff", out, 0, 17).stdout
    assert "engine.array.rows" in differs and "cycles.total" in differs
    assert "there is no point 99" in command("show", out, 99, code=1).stderr
    assert "no such" in command("front", tmp_path / "nowhere", code=1).stderr.lower()


def test_dry_run(spec: Path, tmp_path: Path, command: Command) -> None:
    """It lists and costs, and writes nothing."""
    said = command(spec, "-o", tmp_path / "out", "--dry-run").stdout
    assert "18 points" in said and "engine.array.cols = engine.array.rows" in said and "of a core" in said
    assert not (tmp_path / "out").exists()


def test_programs_as_objects(tmp_path: Path) -> None:
    """Programs in memory and modules of PyTorch become files of the folder, once."""
    import torch

    module = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU())
    stated: dict[str, Any] = {
        "programs": {"net": (module, (torch.zeros(4, 64),)), "gemm": kpusim.Program.load(GEMM)},
        "platforms": ["npm_lite"], "axes": {"ddr.channels": [1, 2]},
    }  # fmt: skip
    results = kpusim.sweep(folder=tmp_path / "out", **stated)
    assert [row["program"] for row in results.rows] == ["net", "gemm"] * 2 and not any(
        row["error"] for row in results.rows
    )
    before = (tmp_path / "out/journal.jsonl").read_bytes()
    kpusim.sweep(folder=tmp_path / "out", **stated)
    assert (tmp_path / "out/journal.jsonl").read_bytes() == before


def test_external_verb(spec: Path, tmp_path: Path) -> None:
    """`kpusim sweep` of the C++ command is the package's; without it, the error says how to install it."""
    import sys

    binary = os.environ["KPUSIM"]
    folder = Path(sys.executable).parent
    path = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"}
    said = subprocess.run(
        [binary, "sweep", spec, "-o", tmp_path / "out"], capture_output=True, text=True, env=path, check=True
    )
    assert "18 points" in said.stdout
    bare = subprocess.run(
        [binary, "sweep", spec], capture_output=True, text=True, env={"PATH": "/usr/bin"}, check=False
    )
    assert bare.returncode == 1 and "pip install 'kpusim[sweep]'" in bare.stderr
    assert "sweep" in subprocess.run([binary, "--help"], capture_output=True, text=True, check=True).stdout


def test_files_of_options(tmp_path: Path, command: Command) -> None:
    """Folders of samples are beside the sweep's file; other content is another sweep; sizes are options."""
    networks = ROOT / "examples/networks"
    shutil.copytree(networks / "calibration", tmp_path / "images")
    spec = tmp_path / "spec.yaml"
    spec.write_text(f"""\
programs: [{networks / "digits_cnn.onnx"}]
platforms: [tile32]
options: {{precision: int8, calibrate: images, effort: 1}}
axes: {{ddr.channels: [1, 2], option.inferences: [1, 2]}}
""")
    assert "4 points, 0 failed" in command(spec, "-o", tmp_path / "out").stdout
    point = kpusim.SweepResults(tmp_path / "out").point(3)
    assert f"--calibrate {tmp_path / 'images'}" in point.command() and "--inferences 2" in point.command()
    shutil.copy(tmp_path / "images/00.npy", tmp_path / "images/more.npy")
    assert "holds another sweep (files:" in command(spec, "-o", tmp_path / "out", code=1).stderr
    sized = kpusim.sweep(
        folder=tmp_path / "sized", platforms=["tile32"], axes={"ddr.channels": [1]},
        programs=[{"file": small_model(tmp_path / "n.onnx"), "options": {"dim": {"n": 2}, "effort": 1}}],
    )  # fmt: skip
    assert "--dim n=2" in sized.point(0).command()


def test_command_can_be_pasted(tmp_path: Path) -> None:
    """Names with blanks are quoted, as a shell takes them."""
    program = tmp_path / "my net.nem"
    shutil.copy(GEMM, program)
    results = kpusim.sweep(folder=tmp_path / "o", programs=[program], axes={"l2.ports": [4]})
    assert shlex.split(results.point(0).command())[2] == str(program)
