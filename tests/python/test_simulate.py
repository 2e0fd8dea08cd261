"""Running programs: values, statistics, operations, hazards, events, power, folders."""

from __future__ import annotations

import csv
import inspect
import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import kpusim
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "examples/gemm_relu/gemm_relu.nem"


def x_of(seed: int = 0) -> np.ndarray:
    """Input of the small program."""
    return np.random.default_rng(seed).standard_normal(256).astype(np.float16)


def test_values_and_cycles_come_from_one_run(relu: str) -> None:
    """The output is NumPy's, and there are cycles, energy and operations."""
    x = x_of()
    run = kpusim.simulate(relu, "npm_lite", {"x": x})
    assert np.array_equal(run.outputs["y"], np.maximum(x, 0))
    assert run.complete
    assert run.stats["cycles.total"] == run.cycles > 0
    assert run.stats.stat("energy.total_uj").unit == "uJ"
    assert run.hazards == []
    assert sum(op.charged_cycles for op in run.ops) == run.cycles


def test_unknown_statistic(relu: str) -> None:
    """It is an error of the package, and a KeyError, so that the mapping behaves as one."""
    stats = kpusim.simulate(relu, "npm_lite", fill=1).stats
    with pytest.raises(kpusim.UnknownNameError, match=r"^there is no statistic 'cycles\.all'\. Fix: "):
        stats["cycles.all"]
    assert isinstance(kpusim.UnknownNameError("x"), KeyError)
    assert stats.get("cycles.all") is None


def test_stats_equal_the_command(tmp_path: Path) -> None:
    """`kpusim run` with the same fill gives the same statistics, operations and output."""
    folder = tmp_path / "command"
    command = [os.environ["KPUSIM"], "run", str(GEMM), "--fill", "random:1", "-o", str(folder), "--quiet"]
    subprocess.run(command, check=True)
    stats = json.loads((folder / "stats.json").read_text())["stats"]
    run = kpusim.simulate(GEMM, fill=1)
    assert {key: run.stats.stat(key)._asdict() for key in run.stats} == stats
    assert np.array_equal(run.outputs["Y"], np.load(folder / "outputs/Y.npy"))
    run.save(tmp_path / "package")
    for name in ("stats.json", "ops.csv", "platform.textproto", "outputs/Y.npy"):
        assert (tmp_path / "package" / name).read_bytes() == (folder / name).read_bytes(), name
    manifests = [json.loads((tmp_path / f / "manifest.json").read_text()) for f in ("package", "command")]
    assert manifests[0]["program"] == manifests[1]["program"]
    assert manifests[0]["inputs"] == manifests[1]["inputs"]
    with pytest.raises(kpusim.UserError, match="not empty"):
        run.save(tmp_path / "package")
    run.save(tmp_path / "package", force=True)


@pytest.mark.parametrize("mode", ["values+timing", "timing", "functional"])
def test_modes(relu: str, mode: kpusim.simulation.Mode) -> None:
    """Timing has the same cycles without values, functional the same values without cycles."""
    x = x_of()
    run = kpusim.simulate(relu, "npm_lite", {"x": x}, mode=mode)
    full = kpusim.simulate(relu, "npm_lite", {"x": x})
    assert ("y" in run.outputs) == (mode != "timing")
    if mode == "functional":
        assert "cycles.total" not in run.stats
    else:
        assert run.cycles == full.cycles
    if mode != "timing":
        assert np.array_equal(run.outputs["y"], full.outputs["y"])


def test_functional_mode_needs_no_platform(relu: str) -> None:
    """And modes with time say that they need one."""
    x = x_of()
    run = kpusim.simulate(relu, None, {"x": x}, mode="functional", order=7)
    assert np.array_equal(run.outputs["y"], np.maximum(x, 0))
    with pytest.raises(kpusim.UserError, match="no platform is known"):
        kpusim.simulate(relu, None, {"x": x})


def test_overrides_are_those_of_the_command(tmp_path: Path) -> None:
    """Values that follow from an overridden one follow in both."""
    settings = {"engine.array.rows": 32, "clock.core_mhz": 800}
    command = [os.environ["KPUSIM"], "run", str(GEMM), "--mode", "timing", "--json", "--quiet"]
    for path, value in settings.items():
        command += ["--set", f"{path}={value}"]
    stats = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["stats"]
    expected = stats["cycles.total"]["value"]
    assert kpusim.simulate(GEMM, mode="timing", **settings).cycles == expected
    assert kpusim.simulate(GEMM, "npm_lite", mode="timing", **settings).cycles == expected
    platform = kpusim.Platform.load("npm_lite").with_(**{"engine.array.rows": 32})
    platform = platform.with_(**{"clock.core_mhz": 800})
    assert kpusim.simulate(GEMM, platform, mode="timing").cycles == expected


def test_programs_from_text_path_and_bytes(relu: str, tmp_path: Path) -> None:
    """All forms are the same program."""
    x = x_of()
    program = kpusim.Program.of(relu)
    program.save(tmp_path / "p.kpu")
    program.save(tmp_path / "p.nem")
    forms = [relu, program, program.to_bytes(), tmp_path / "p.kpu", str(tmp_path / "p.nem"), program.text()]
    forms.append(pickle.loads(pickle.dumps(program)))
    cycles = {kpusim.simulate(form, "npm_lite", {"x": x}).cycles for form in forms}
    assert len(cycles) == 1


def test_events_power_and_stalls(relu: str, tmp_path: Path) -> None:
    """Recording and simulating again to record are the same; the traces close with the statistics."""
    x = x_of()
    recorded = kpusim.simulate(relu, "npm_lite", {"x": x}, events=True)
    run = kpusim.simulate(relu, "npm_lite", {"x": x})
    assert run.events.records.tobytes() == recorded.events.records.tobytes()
    assert run.power.energy_uj == pytest.approx(run.stats["energy.total_uj"], rel=1e-9)
    assert run.power.average_w == pytest.approx(run.stats["power.average_w"], rel=1e-9)
    total = sum(run.power.watts.values())
    assert np.allclose(total, run.power.total, rtol=1e-9)
    intervals = run.events.intervals
    by_cause: dict[str, int] = {}
    for unit, cause, cycles in zip(intervals.unit, intervals.cause, intervals.cycles, strict=True):
        key = f"{unit}.{cause}"
        by_cause[key] = by_cause.get(key, 0) + int(cycles)
    units = run.stats.under("units")
    assert {key: value for key, value in units.items() if value} == {k: v for k, v in by_cause.items() if v}
    run.events.save(tmp_path / "run.kpuev")
    assert kpusim.Events.load(tmp_path / "run.kpuev").records.tobytes() == run.events.records.tobytes()
    for name in ("vcd", "stalls", "power"):
        run.events.write_trace(name, tmp_path / name)
    with open(tmp_path / "stalls") as file:
        assert len(list(csv.DictReader(file))) == len(intervals)
    records = run.events.records
    del run, recorded
    assert records["time_ps"][-1] > 0  # the array keeps its memory alive


def test_hazards_are_reported(relu: str) -> None:
    """A missing dependency is a hazard with its tasks and bytes, warns, and fails a strict run."""
    racy = relu.replace(", deps=[act])", ")")
    with pytest.warns(kpusim.HazardWarning, match="hazards .* results may be wrong. Fix: ") as told:
        run = kpusim.simulate(racy, "npm_lite", {"x": x_of()})
    assert told[0].filename == __file__
    assert run.complete
    assert run.hazards
    assert run.stats["hazards.count"] == sum(hazard.count for hazard in run.hazards)
    assert f"{run.stats['hazards.count']} hazards" in str(told[0].message)
    assert f"{run.stats['hazards.count']} hazards" in repr(run)
    stepped = kpusim.Simulation(racy, "npm_lite")
    stepped.set_inputs({"x": x_of()})
    stepped.step(10**9)
    with pytest.warns(kpusim.HazardWarning) as again:
        stepped.result()
    assert again[0].filename == __file__
    hazard = run.hazards[0]
    assert hazard.kind in {"raw", "war", "waw", "stale", "unwritten"}
    assert hazard.buffer == "x_l1"
    assert hazard.place[1] > 0
    assert hazard.count > 0
    with pytest.raises(kpusim.SimulationError) as caught:
        kpusim.simulate(racy, "npm_lite", {"x": x_of()}, strict=True)
    assert caught.value.run is not None
    assert caught.value.run.complete


def test_a_limit_ends_the_run_with_partial_results(relu: str) -> None:
    """The exception has the run until then."""
    with pytest.raises(kpusim.SimulationError, match="limit of 200 cycles") as caught:
        kpusim.simulate(relu, "npm_lite", {"x": x_of()}, max_cycles=200)
    assert caught.value.fix
    assert caught.value.run is not None
    assert caught.value.run.cycles == 200
    assert not caught.value.run.complete


def test_platform() -> None:
    """Names, overrides, text, pickles and mistakes."""
    assert "npm_lite" in kpusim.Platform.names()
    platform = kpusim.Platform.load("npm_lite")
    slower = platform.with_(**{"clock.core_mhz": 500})
    assert (platform.core_mhz, slower.core_mhz) == (1000, 500)
    assert kpusim.Platform.parse(slower.text()) == slower
    assert pickle.loads(pickle.dumps(slower)) == slower
    assert "e0_nmu0" in platform.units()
    assert "clock.core_mhz" in {row.path for row in kpusim.Platform.parameters()}
    with pytest.raises(kpusim.UserError, match="core_mhz") as caught:
        platform.with_(**{"clock.cor_mhz": 500})
    assert caught.value.fix
    with pytest.raises(kpusim.UserError, match="npm_lite"):
        kpusim.Platform.load("npm_light")
    with pytest.raises(TypeError, match="no option"):
        kpusim.simulate(GEMM, "npm_lite", parms=1)


def test_errors_carry_their_place() -> None:
    """File, line, column, message and fix of each finding."""
    with pytest.raises(kpusim.UserError) as caught:
        kpusim.Program.parse("program p:\nbuffer x : DDR (size = 64\n", origin="dir/p.nem")
    error = caught.value
    assert (error.file, error.line) == ("dir/p.nem", 3)
    assert error.column > 0
    assert error.message
    assert error.fix
    assert str(error.diagnostics[0]).startswith("dir/p.nem:3:")
    program = kpusim.Program.parse("program p:\nbuffer x : DDR (size = 64)\nlet r = region(x, 0, 128)\n")
    findings = program.check()
    assert [(finding.severity, finding.line) for finding in findings if finding.severity == "error"]


def test_interleaved_simulations_on_different_platforms(relu: str) -> None:
    """Stepping two devices in turns changes neither."""
    x = x_of()
    names = ["npm_lite", "npm_mid"]
    alone = [kpusim.simulate(relu, name, {"x": x}).cycles for name in names]
    pair = [kpusim.Simulation(relu, name) for name in names]
    for simulation in pair:
        simulation.set_inputs({"x": x})
    while any(simulation.status == "paused" for simulation in pair):
        for simulation in pair:
            if simulation.status == "paused":
                simulation.step(37)
    assert [simulation.cycle for simulation in pair] == alone
    for simulation in pair:
        assert np.array_equal(simulation.output("y"), np.maximum(x, 0))


def test_steps_by_task_visit_every_task_once(relu: str) -> None:
    """Each completion is returned with its iteration and unit; there are as many as tasks."""
    simulation = kpusim.Simulation(relu, "npm_lite")
    simulation.set_inputs({"x": x_of()})
    done = []
    while (task := simulation.step_task()) is not None:
        done.append((task.name, task.iteration))
        assert task.unit
        assert task.place[1] > 0
    assert len(done) == len(set(done)) == 20
    assert simulation.status == "finished"


def test_memory_can_be_written_between_steps(relu: str) -> None:
    """A task reads later what was written; the run is then not repeated to record it."""
    x = x_of()
    simulation = kpusim.Simulation(relu, "npm_lite")
    simulation.set_inputs({"x": x})
    while (task := simulation.step_task()) is not None and task.name != "fetch":
        pass
    assert np.array_equal(simulation.read("near", i=0), x[:64])
    simulation.write("near", -x[:64], i=0)
    run = simulation.run()
    assert np.array_equal(run.outputs["y"], np.maximum(np.concatenate([-x[:64], x[64:]]), 0))
    with pytest.raises(kpusim.UserError, match="events=True"):
        _ = run.events
    with pytest.raises(kpusim.UserError, match="float32"):
        simulation.write("near", x[:64].astype(np.float32), i=0)
    with pytest.raises(kpusim.UserError, match="shape"):
        simulation.write("near", x[:63], i=0)
    with pytest.raises(kpusim.UserError, match="nowhere"):
        simulation.write("nowhere", x)


def test_readable_reprs(relu: str) -> None:
    """Objects say what they are."""
    run = kpusim.simulate(relu, "npm_lite", {"x": x_of()})
    assert "tiles on npm_lite" in repr(run)
    assert "cycles" in repr(run)
    assert "uJ" in repr(run.stats)
    assert "npm_lite" in repr(kpusim.Platform.load("npm_lite"))
    assert "tiles" in repr(kpusim.Program.of(relu))
    assert "charged" in repr(run.ops[0])
    assert "records" in repr(run.events)
    assert " W" in repr(run.power)
    assert "time" in run.report()


def test_options_as_an_object(relu: str) -> None:
    """It says what keywords say, which count before it; both are checked in one place."""
    options = kpusim.SimulationOptions(mode="timing", max_cycles=100_000, seed=3)
    program = kpusim.Program.parse(relu)
    run = kpusim.simulate(program, "swkpu-v1", options=options)
    same = kpusim.simulate(program, "swkpu-v1", mode="timing", max_cycles=100_000, seed=3)
    assert (run.mode, run.cycles, dict(run.stats)) == ("timing", same.cycles, dict(same.stats))
    both = kpusim.simulate(program, "swkpu-v1", options=options, mode="values+timing", fill=1)
    assert (both.mode, both.cycles) == ("values+timing", run.cycles)
    with pytest.raises(kpusim.SimulationError, match="stopped at the limit of 5 cycles"):
        kpusim.Simulation(program, "swkpu-v1", options, max_cycles=5).run()
    for make in (kpusim.SimulationOptions, lambda **given: kpusim.simulate(program, "swkpu-v1", **given)):
        with pytest.raises(kpusim.UserError, match="seed=-1 is not a seed"):
            make(seed=-1)


@pytest.mark.parametrize("function", [kpusim.simulate, kpusim.Simulation])
def test_help_shows_every_option(function: Callable[..., object]) -> None:
    """With its default, as if the function stated it."""
    shown = inspect.signature(function).parameters
    for name, parameter in inspect.signature(kpusim.SimulationOptions).parameters.items():
        assert shown[name] == parameter
    assert [name for name, item in shown.items() if item.kind is item.VAR_KEYWORD] == ["keywords"]
