"""Timeline, traffic and banks of a run as arrays and frames, and their plots."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import pytest
from kpusim.run.traffic import ACCESSES, COUNTS, LEVELS

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples/gemm_relu/gemm_relu.nem")
BURST: dict[str, Any] = {"ddr.fidelity": "burst"}


@pytest.fixture(scope="module")
def run() -> kpusim.Run:
    """One run on a DRAM with banks, with all that can be recorded."""
    return kpusim.simulate(EXAMPLE, "npm_lite", mode="timing", events="accesses", **BURST)


def test_timeline_is_the_stall_trace(run: kpusim.Run, tmp_path: Path) -> None:
    """Row for row; the cycles of causes are the statistics."""
    timeline = run.timeline
    run.write_trace("stalls", tmp_path / "stalls.csv")
    with (tmp_path / "stalls.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(timeline)
    assert [row["unit"] for row in rows] == [timeline.units[index] for index in timeline.unit]
    assert [row["cause"] for row in rows] == [timeline.causes[index] for index in timeline.cause]
    assert [int(row["cycles"]) for row in rows] == timeline.cycles.tolist()
    assert [row["task"] for row in rows] == timeline.task.tolist()
    assert [row["operation"] for row in rows] == timeline.operation.tolist()
    assert np.array_equal(timeline.start, [int(row["start_ps"]) / 1000 for row in rows])
    frame = timeline.to_pandas()
    sums = frame[frame.unit == "e0_nmu0"].groupby("cause").cycles.sum()
    assert all(run.stats[f"units.e0_nmu0.{cause}"] == cycles for cause, cycles in sums.items())


@pytest.mark.parametrize("bins", [1, 7, 100, 5000])
def test_shares_of_bins(run: kpusim.Run, bins: int) -> None:
    """Each bin sums to 1, and all of them to the cycles of each cause."""
    timeline = run.timeline
    for unit in ("e0_nmu0", "sdma0", "ddr1"):
        shares = timeline.shares(unit, bins)
        assert shares.shape == (bins, len(timeline.causes))
        assert shares.sum(axis=1) == pytest.approx(np.ones(bins))
        mine = timeline.of(unit)
        lengths = np.zeros(len(timeline.causes))
        np.add.at(lengths, timeline.cause[mine], (timeline.end - timeline.start)[mine])
        assert shares.sum(axis=0) * timeline.end.max() / bins == pytest.approx(lengths)


def test_traffic_is_the_memory_trace(run: kpusim.Run, tmp_path: Path) -> None:
    """Request for request; bytes of a level and direction are the statistic."""
    traffic = run.traffic
    run.write_trace("memory-trace", tmp_path / "memory.csv")
    with (tmp_path / "memory.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(traffic) == len(traffic.to_pandas())
    assert [int(row["cycle"]) for row in rows] == traffic.cycle.tolist()
    assert [int(row["bytes"]) for row in rows] == traffic.bytes.tolist()
    assert [row["unit"] for row in rows] == [traffic.units[index] for index in traffic.unit]
    places = [int(row["address"], 16) for row in rows]
    assert [place & ((1 << 40) - 1) for place in places] == traffic.address.tolist()
    for level in LEVELS:
        for access in ACCESSES:
            assert traffic.bytes_of(level, access) == run.stats[f"bytes.{level}.{access}"]
            for bin_ns in (1000, 77.7, 1e9):
                sums = traffic.over_time(level, access, bin_ns)
                assert int(sums.sum()) == traffic.bytes_of(level, access)


def test_banks_are_the_dram_traffic(run: kpusim.Run, tmp_path: Path) -> None:
    """Bank for bank the table that the command writes; sums are the statistics."""
    banks = run.traffic.banks
    run.write_trace("dram-traffic", tmp_path / "banks.csv")
    with (tmp_path / "banks.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = {name: np.zeros_like(counts) for name, counts in banks.counts.items()}
    for row in rows:
        place = (
            int(float(row["time_ns"]) / banks.dt_ns),
            banks.channels.index(row["channel"]),
            int(row["bank"]),
        )
        for name in COUNTS:
            found[name][place] = int(row[name])
    assert all(np.array_equal(found[name], banks.counts[name]) for name in COUNTS)
    assert len(banks.to_pandas()) == len(rows)
    assert banks.counts["reads"].shape == (len(banks.time_ns), 2, 8)
    for name, action in (("reads", "read"), ("writes", "write"), ("activates", "activate")):
        assert int(banks.counts[name].sum()) == run.stats[f"energy.count.dram.{action}"]
        assert (
            sum(stream.counts[name] for stream in banks.streams) == run.stats[f"energy.count.dram.{action}"]
        )
    assert 0.9 < banks.row_hit_rate < 1


def test_runs_without_records_simulate_again() -> None:
    """Runs that recorded nothing simulate again; the same arrays. A DRAM without controllers has no banks."""
    plain = kpusim.simulate(EXAMPLE, "npm_lite", mode="timing")
    recorded = kpusim.simulate(EXAMPLE, "npm_lite", mode="timing", events="accesses")
    assert np.array_equal(plain.traffic.address, recorded.traffic.address)
    assert len(plain.timeline) == len(recorded.timeline)
    with pytest.raises(kpusim.UserError, match=r"no banks .* Fix: run it with ddr\.fidelity=burst"):
        _ = plain.traffic.banks
    with pytest.raises(kpusim.UserError, match="no time"):
        _ = kpusim.simulate(EXAMPLE, mode="functional", fill=1).traffic


def test_frames_of_parts(run: kpusim.Run) -> None:
    """The tables of the run are those of its parts."""
    assert run.to_pandas("traffic").equals(run.traffic.to_pandas())
    assert run.to_pandas("banks").equals(run.traffic.banks.to_pandas())
    assert run.to_pandas("power").equals(run.power.to_pandas())


def test_every_plot_draws_into_given_axes(run: kpusim.Run) -> None:
    """Each ``plot_`` method returns the axes that it was given, with something in them."""
    from matplotlib.figure import Figure

    methods = [name for name in dir(run) if name.startswith("plot_")]
    assert len(methods) == 6
    for name in methods:
        axes = Figure().add_subplot()
        assert getattr(run, name)(axes) is axes
        assert axes.has_data(), name
        assert run.program in axes.get_title()


def test_plots_show_the_numbers(run: kpusim.Run) -> None:
    """Bars, bands and cells are the statistics, not just some picture."""
    axes = run.plot_stalls()
    width = {}
    for bar in axes.patches:
        row = axes.get_yticklabels()[round(bar.get_y() + 0.4)].get_text()
        width[row] = width.get(row, 0) + bar.get_width()
    idle = run.stats["units.e0_nmu0.idle.no_work"] + run.stats["units.e0_nmu0.idle.finished"]
    assert width["e0_nmu0"] == pytest.approx(100 * (1 - idle / run.cycles))
    cells = run.plot_banks().images[0].get_array()
    assert cells is not None
    assert np.nansum(cells) == sum(run.traffic.banks.counts[name].sum() for name in ("reads", "writes"))
    drawn = sum(len(line.get_xdata()) for line in run.plot_memory().lines)
    assert drawn == np.count_nonzero(run.traffic.level == LEVELS.index("dram"))
    by_unit = run.plot_power(by="unit")
    legend = by_unit.get_legend()
    assert legend is not None
    assert "ddr0" in [text.get_text() for text in legend.get_texts()]
    rows = run.plot_timeline(units=["e0_*"]).get_yticklabels()
    assert rows and all(re.match("e0_", label.get_text()) for label in rows)
    roofs = run.plot_roofline()
    highest = max(np.max(line.get_ydata()) for line in roofs.lines)
    assert highest == max(point["peak"] for point in run.explain().data["roofline"])


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.timeline.of("e9"),
        lambda run: run.timeline.shares("e0_nmu0", 0),
        lambda run: run.traffic.of("l3", "read"),
        lambda run: run.traffic.of("dram", "copy"),
        lambda run: run.traffic.of(1, "read"),
        lambda run: run.traffic.over_time("dram", "read", 0),
        lambda run: run.plot_timeline(units=["x*"]),
        lambda run: run.plot_banks(count="refreshes"),
        lambda run: run.plot_power(by="layer"),
        lambda run: run.plot_memory(level="l3"),
    ],
)
def test_wrong_arguments(run: kpusim.Run, call: Any) -> None:  # noqa: ANN401
    """Each is an error with its fix."""
    with pytest.raises(kpusim.KpusimError) as caught:
        call(run)
    assert caught.value.fix
