"""Frames, pictures, progress and timeouts of runs; what changes would save; wrong arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import kpusim
import pytest

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples/gemm_relu/gemm_relu.nem")


@pytest.fixture(scope="module")
def run() -> kpusim.Run:
    """One run with its events."""
    return kpusim.simulate(EXAMPLE, "npm_lite", mode="timing", events=True)


def test_frames_sum_to_the_run(run: kpusim.Run) -> None:
    """Each table has the rows and sums of what it shows."""
    ops = run.to_pandas("ops")
    assert list(ops["id"]) == [op.id for op in run.ops]
    assert ops["charged_cycles"].sum() == run.cycles
    causes = [name for name in ops.columns if name.startswith(("busy.", "stalled."))]
    assert causes and ops[causes].notna().all().all()
    stalls = run.to_pandas("stalls")
    assert (stalls.groupby("unit")["cycles"].sum() == run.cycles).all()
    nmu = stalls[stalls["unit"] == "e0_nmu0"].groupby("cause")["cycles"].sum()
    assert all(run.stats[f"units.e0_nmu0.{cause}"] == cycles for cause, cycles in nmu.items())
    power = run.to_pandas("power")
    assert (power["total"] * power["dt_ns"]).sum() * 1e-3 == pytest.approx(run.power.energy_uj)
    events = run.to_pandas("events")
    assert len(events) == len(run.events)
    assert set(events["unit_name"]) <= {*run.events.units, ""}


def test_frames_are_copies(run: kpusim.Run) -> None:
    """Who writes into a frame does not write into the run."""
    events = run.to_pandas("events")
    before = int(run.events.records["time_ps"][-1])
    events.loc[:, "time_ps"] = 1
    assert int(run.events.records["time_ps"][-1]) == before


def test_html_has_every_unit(run: kpusim.Run) -> None:
    """A bar for each unit, whose parts are its share of the run."""
    page = run._repr_html_()
    for unit in ("e0_nmu0", "sdma0", "ddr0", "device"):
        assert f">{unit}</td>" in page
    useful = run.stats["units.e0_nmu0.busy.useful"] / run.cycles
    assert f"useful {useful:.1%}" in page


def test_html_escapes_names() -> None:
    """A name from a file is text, not markup."""
    source = Path(EXAMPLE).read_text(encoding="utf-8").replace("program gemm_relu", "program a_b")
    other = kpusim.simulate(source, "npm_lite", mode="timing")
    other.program = "<script>"
    assert "<script>" not in other._repr_html_()


def test_power_of_parts(run: kpusim.Run) -> None:
    """Components, engines, units, operations sum to the statistics, to the last digit; corners enclose it."""
    power = run.events.power(bin_ns=777)
    total = run.stats["energy.total_uj"]
    for what in ("component", "engine", "unit", "op"):
        parts = power.by(what)
        assert sum(part.energy_yj for part in parts.values()) / 10**18 == total
        assert sum(part.total for part in parts.values()) == pytest.approx(power.total)
        assert all(len(part.dynamic) == len(part.static_yj) == len(power) for part in parts.values())
    assert {"e0_nmu0", "ddr0", "l2", "e0_seq"} <= set(power.by("unit"))
    assert set(power.by("engine")) == {"e0", "device"}
    energies = {row.id: row.energy_pj for row in run.ops}
    by_op = power.by("op")
    assert {
        name: sum(part.dynamic_yj) / 10**12 for name, part in by_op.items() if name != "__background"
    } == {name: energy for name, energy in energies.items() if energy and name != "__background"}
    corners = power.by("corner")
    assert corners["low"].energy_uj < total < corners["high"].energy_uj


@pytest.mark.parametrize("kind", ["units", "stalls", "timeline", "power", "roofline", "memory", "ops"])
def test_plots(run: kpusim.Run, kind: str, tmp_path: Path) -> None:
    """Each plot is a figure with something in it."""
    figure = run.plot(kind)
    assert figure.axes[0].has_data()
    figure.savefig(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 1000


def test_plots_leave_pyplot_alone() -> None:
    """No window, no global state: pyplot is not even imported."""
    code = (
        "import sys, kpusim; "
        f"kpusim.simulate({EXAMPLE!r}, 'npm_lite', mode='timing').plot(); "
        "assert 'matplotlib.pyplot' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(kpusim.__file__).parents[1])


def test_package_needs_no_extra() -> None:
    """Without pandas and matplotlib the package works, and says what is missing where they are used."""
    code = (
        "import sys; sys.modules['pandas'] = sys.modules['matplotlib'] = None\n"
        f"import kpusim; run = kpusim.simulate({EXAMPLE!r}, 'npm_lite', mode='timing')\n"
        "run._repr_html_()\n"
        "for use in (lambda: run.to_pandas('ops'), lambda: run.plot(), run.plot_timeline, run.plot_memory,"
        "            run.power.to_pandas, run.timeline.to_pandas, run.traffic.to_pandas):\n"
        "    try: use()\n"
        "    except kpusim.UserError as error: assert 'kpusim[plots]' in error.fix, error\n"
        "    else: raise SystemExit('no error')\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(kpusim.__file__).parents[1])


def test_progress_true_writes_to_stderr(capfd: pytest.CaptureFixture[str]) -> None:
    """The line goes to standard error and is gone at the end."""
    kpusim.simulate(EXAMPLE, "npm_lite", mode="timing", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert not err or ("tasks complete" in err and err.endswith("\r"))


def test_timeout_stops_with_partial_results() -> None:
    """A run that takes longer ends with what it has."""
    program = (
        "buffer x : DDR (size = 4096)\nbuffer m : L2 (size = 4096)\n"
        "loop i in [0..100000000]:\n"
        "    a = transfer.async(dst=region(m, 0, 4096), src=region(x, 0, 4096))\nendloop\n"
    )
    with pytest.raises(kpusim.SimulationError, match="timeout") as caught:
        kpusim.simulate(program, "npm_lite", mode="timing", timeout=0.3)
    assert caught.value.run is not None
    assert not caught.value.run.complete
    assert caught.value.run.cycles > 0


def test_what_if_ranks_changes(run: kpusim.Run) -> None:
    """Most saved first; what does not hold says why."""
    answer = run.what_if(limit_s=600)
    assert not answer.skipped
    held = [change for change in answer.changes if change.cycles is not None]
    assert [change.saved for change in held] == sorted((change.saved for change in held), reverse=True)
    assert held[0].saved > 0
    assert all(change.problem for change in answer.changes if change.cycles is None)
    assert "saves" in str(answer)
    assert run.what_if(limit_s=1e-6).skipped


WRONG: list[tuple[str, Any]] = [
    ("mode", "fast"),
    ("mode", 3),
    ("params", [1]),
    ("params", {"T": "8"}),
    ("params", {1: 1}),
    ("params", {"T": 2**70}),
    ("strict", "yes"),
    ("retarget", 1),
    ("hazards", None),
    ("order", "random"),
    ("order", -1),
    ("seed", -1),
    ("seed", "1"),
    ("seed", 2**70),
    ("max_cycles", -1),
    ("max_cycles", 1.5),
    ("events", "all"),
    ("engine", "slow"),
    ("engine", 3),
    ("fill", "ones"),
    ("fill", -1),
    ("fill", 1.5),
    ("inputs", [1, 2]),
    ("inputs", {1: 2}),
    ("inputs", {"A": object()}),
    ("progress", 3),
    ("timeout", 0),
    ("timeout", -1.0),
    ("timeout", float("nan")),
    ("timeout", "1"),
    ("platform", 3),
    ("platform", b"npm_lite"),
    ("program", 3),
    ("program", None),
    ("program", ["a"]),
    ("no_such_option", 1),
    ("no.such.parameter", 1),
    ("engine.array.rows", "many"),
]


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_wrong_arguments_of_simulate(name: str, value: object) -> None:
    """Every wrong argument is a KpusimError that says so."""
    arguments: dict[str, Any] = {"program": EXAMPLE, "platform": "npm_lite", "fill": 1, name: value}
    with pytest.raises(kpusim.KpusimError) as caught:
        kpusim.simulate(**arguments)
    assert str(caught.value)


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.to_pandas("rows"),
        lambda run: run.to_pandas(None),
        lambda run: run.plot("pie"),
        lambda run: run.plot(3),
        lambda run: run.what_if(0),
        lambda run: run.what_if("long"),
        lambda run: run.explain(3),
        lambda run: run.explain("no such task"),
        lambda run: run.report("wide"),
        lambda run: run.save(3),
        lambda run: run.write_trace("gif", "x"),
        lambda run: run.write_trace("vcd", 3),
        lambda run: run.write_trace("vcd", "x", window=3),
        lambda run: run.events.power(-1),
        lambda run: run.events.power("1"),
        lambda run: run.events.power(0.5),
        lambda run: run.power.by("layer"),
        lambda run: kpusim.diff(run, 3),
        lambda run: kpusim.diff(run, run, threshold="x"),
        lambda run: kpusim.diff(run, run, top=1.5),
        lambda run: kpusim.Platform.load(3),
        lambda run: kpusim.Platform.parse(3),
        lambda run: kpusim.load(3),
        lambda run: kpusim.Events.load(3),
        lambda run: kpusim.Simulation(EXAMPLE, "npm_lite", mode="timing").step("1"),
    ],
)
def test_wrong_arguments_elsewhere(run: kpusim.Run, call: Any) -> None:  # noqa: ANN401
    """Also of methods and of the other functions."""
    with pytest.raises(kpusim.KpusimError):
        call(run)
