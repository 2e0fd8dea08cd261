"""Explanations of a run, and comparisons of two."""

from __future__ import annotations

import json
from pathlib import Path

import kpusim
import pytest

GEMM = Path(__file__).resolve().parents[2] / "examples" / "gemm_relu" / "gemm_relu.nem"


@pytest.fixture(scope="module")
def run() -> kpusim.Run:
    """A run of the example."""
    return kpusim.simulate(GEMM, "npm_lite", fill=1)


def test_explain_sums_to_the_run(run: kpusim.Run) -> None:
    """Every cycle is in the tables, and the text names them."""
    whole = run.explain()
    assert f"{run.cycles:,} cycles" in str(whole)
    assert sum(row["charged_cycles"] for row in whole.data["operations"]) == run.cycles


def test_explain_one(run: kpusim.Run) -> None:
    """An operation, a task of it, and names that are neither."""
    (gemm,) = (row for row in run.ops if row.id == "g")
    operation, task = run.explain("g"), run.explain("g[t=1 k=2]")
    assert f"{gemm.charged_cycles:,} of {run.cycles:,} cycles" in operation.text
    assert task.text.startswith("g[t=1 k=2] (g)")
    assert "g[t=1 k=1], an earlier iteration" in task.text
    assert operation.data == task.data == {}
    for name in ("gg", "g[k=2]"):
        with pytest.raises(kpusim.UserError, match="Fix:"):
            run.explain(name)


def test_explain_needs_time() -> None:
    """A functional run has none."""
    functional = kpusim.simulate(GEMM, "npm_lite", fill=1, mode="functional")
    with pytest.raises(kpusim.UserError, match=r"functional .*Fix:"):
        functional.explain()


def test_equal_runs(run: kpusim.Run, tmp_path: Path) -> None:
    """A run does not differ from itself, whichever way it is given."""
    run.save(tmp_path / "run")
    for other in (run, tmp_path / "run", str(tmp_path / "run"), kpusim.simulate(GEMM, "npm_lite", fill=1)):
        difference = kpusim.diff(run, other)
        assert not difference
        assert difference.data["equal"] is True
        assert str(difference) == "no differences\n"


def test_page(run: kpusim.Run, tmp_path: Path) -> None:
    """Both runs as a page, of this process and of folders; an existing file is kept."""
    slow = kpusim.simulate(GEMM, "npm_lite", fill=1, **{"ddr.channels": 1})
    slow.save(tmp_path / "slow")
    page = tmp_path / "page.html"
    for other in (slow, tmp_path / "slow"):
        difference = kpusim.diff(run, other)
        difference.write_html(page, force=other is not slow)
        text = page.read_text(encoding="utf-8")
        data = json.loads(text.split('id="data">', 1)[1].split("</script>", 1)[0])
        assert [row["stats"]["cycles.total"] for row in data["runs"]] == [run.cycles, slow.cycles]
        (found,) = data["differences"]
        assert found["operations"] == difference.data["operations"]
    with pytest.raises(kpusim.UserError, match=r"page\.html exists"):
        difference.write_html(page)


def test_different_runs(run: kpusim.Run, tmp_path: Path) -> None:
    """The parameter that was changed, the cycles that follow, the first task that differs."""
    slow = kpusim.simulate(GEMM, "npm_lite", fill=1, events=True, **{"ddr.channels": 1})
    slow.save(tmp_path / "slow")
    assert run.events is not None
    for before, after in ((run, slow), (run, tmp_path / "slow")):
        difference = kpusim.diff(before, after, threshold=0, top=5)
        assert difference
        assert any("ddr.channels" in str(row) for row in difference.data["parameters"])
        (cycles,) = (row for row in difference.data["statistics"] if row["key"] == "cycles.total")
        assert (cycles["a"], cycles["b"]) == (run.cycles, slow.cycles)
        assert "ddr.channels" in difference.text
    assert kpusim.diff(run, slow).data["first_divergence"] is not None


def test_schedules_in_memory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Two schedules of one source, without a file: what differs in them, and what the critical paths lost."""
    text = GEMM.read_text()
    programs = [
        kpusim.Program.parse(one, GEMM)
        for one in (text, text.replace("@max_in_flight(2)", "@max_in_flight(1)"))
    ]
    runs = [kpusim.simulate(program, "npm_lite", fill=1, events=True) for program in programs]
    with monkeypatch.context() as context:
        context.setenv("TMPDIR", "/nowhere")
        context.setattr("tempfile.tempdir", "/nowhere")
        found = kpusim.diff(*runs)
    assert {row["kind"] for row in found.data["schedule"]} == {"window"}
    path = found.data["critical_path"]
    assert (path["cycles_a"], path["cycles_b"]) == (runs[0].cycles, runs[1].cycles)
    assert sum(row["change"] for row in path["on_path"]) == runs[1].cycles - runs[0].cycles
    folders = [tmp_path / name for name in "ab"]
    for run, folder in zip(runs, folders, strict=True):
        run.save(folder)
        assert run.events is not None
        run.events.save(folder / "events.kpuev")
    from_files = kpusim.diff(*folders).data
    for data in (found.data, from_files):
        data["a"].pop("path"), data["b"].pop("path")
    assert found.data == from_files


def test_what_has_no_events(run: kpusim.Run) -> None:
    """It says which run, and how to have them."""
    other = kpusim.simulate(GEMM, "npm_lite", fill=1, **{"ddr.channels": 1})
    found = kpusim.diff(other, run)
    assert "run A recorded no events: give events=True to kpusim.simulate to see" in found.text


def test_wrong_arguments(run: kpusim.Run, tmp_path: Path) -> None:
    """Folders that hold no run, numbers without sense."""
    with pytest.raises(kpusim.UserError, match="not the folder of a run"):
        kpusim.diff(run, tmp_path)
    for wrong in ({"threshold": -1.0}, {"threshold": float("nan")}, {"top": -1}):
        with pytest.raises(kpusim.UserError, match="0 or more"):
            kpusim.diff(run, run, **wrong)
