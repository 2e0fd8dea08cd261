"""Programs of every front end, and every kind of trace, from Python."""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
GEMM = ROOT / "examples/gemm_relu/gemm_relu.nem"
RESNET = ROOT / "examples/resnet18/resnet18.csv"
SCALE = ROOT / "examples/resnet18/scale32.cfg"
HEADER = "tile 32 f32\ntensor 0 x 32 32 input\ntensor 1 w 32 32 weight\ntensor 2 y 32 32 output\n"
OPS = "L 0 0 0 0\nL 1 0 0 4096\nE 0 0 0 0 4096 8192\nS 2 0 0 8192 0\n"
TOPOLOGY = "Layer, M, N, K,\nfc1, 1024, 1024, 1024,\n"


def command(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    return subprocess.run(
        [os.environ["KPUSIM"], *map(str, arguments)], capture_output=True, text=True, check=True
    )


def test_table_is_the_commands() -> None:
    """Names, options and what they say come from the same rows."""
    rows = {row.name: row for row in kpusim.front_ends()}
    assert set(rows) == {
        ".kpu program", "ONNX model", "graph text", "tile schedule", "SCALE-Sim topology", "Pallas export",
        "NEM text",
    }  # fmt: skip
    (header,) = rows["tile schedule"].options
    assert (header.name, header.kind) == ("header", "file")
    assert rows["tile schedule"].default_platform == "tile32"
    assert not rows["SCALE-Sim topology"].has_values


def test_front_end_options_are_no_keywords_of_simulate() -> None:
    """Both are keyword arguments of one function."""
    keywords = set(inspect.signature(kpusim.simulate).parameters) | {"path", "search_paths"}
    options = {option.name for row in kpusim.front_ends() for option in row.options}
    assert not keywords & options


def test_scale_sim_equals_the_command(tmp_path: Path) -> None:
    """The README's ResNet-18: the same cycles of every layer, in timing mode without asking for it."""
    command("run", RESNET, "--platform", SCALE, "--quiet", "-o", tmp_path / "out")
    run = kpusim.simulate(RESNET, SCALE)
    assert (run.mode, run.outputs, run.hazards) == ("timing", {}, [])
    run.save(tmp_path / "package")
    for name in ("stats.json", "ops.csv", "platform.textproto"):
        assert (tmp_path / "package" / name).read_bytes() == (tmp_path / "out" / name).read_bytes(), name


def test_scale_sim_changes_the_platform(tmp_path: Path) -> None:
    """L1 holds the largest layer, unless its size is chosen; the change is said."""
    net = tmp_path / "net.csv"
    net.write_text(TOPOLOGY)
    program = kpusim.load(net, "npm_lite")
    assert not program.has_values
    platform = program.platform()
    assert platform is not None
    assert f"size_bytes: {6 << 20}" in platform.text()
    assert any("engine.l1.size_bytes is set to 6291456" in str(note) for note in program.diagnostics)
    # a program for another device, or with other parameters, is made anew
    assert "engine.l1.size_bytes" in str(program.made_for("npm_pro").diagnostics)
    direct = kpusim.simulate(net, "npm_lite")
    assert kpusim.simulate(program).cycles == direct.cycles
    assert kpusim.simulate(program, "npm_lite").cycles == direct.cycles
    assert kpusim.simulate(TOPOLOGY, "npm_lite").cycles == direct.cycles
    assert kpusim.simulate(program, **{"clock.core_mhz": 500}).stats["time.total_us"] == pytest.approx(
        2 * direct.stats["time.total_us"]
    )
    with pytest.raises(kpusim.UserError, match=r"L1|l1"):
        kpusim.simulate(program, **{"engine.l1.size_bytes": 65536})
    for mode in ("values+timing", "functional"):
        with pytest.raises(kpusim.UserError, match="no data to compute with"):
            kpusim.simulate(net, "npm_lite", mode=mode)
    again = pickle.loads(pickle.dumps(program))
    assert kpusim.simulate(again).cycles == direct.cycles
    assert not again.has_values


def test_schedules(tmp_path: Path) -> None:
    """A schedule runs on its default platform, with its header beside it, with NumPy's values."""
    rng = np.random.default_rng(3)
    x, w = (rng.integers(-4, 5, (32, 32)).astype(np.float32) for _ in range(2))
    whole, ops, header = tmp_path / "whole", tmp_path / "ops", tmp_path / "header"
    whole.write_text(HEADER + OPS)
    ops.write_text(OPS)
    header.write_text(HEADER)
    run = kpusim.simulate(whole, None, {"x": x, "w": w})
    assert run.platform == "tile32"
    assert np.array_equal(run.outputs["y"], x @ w)
    split = kpusim.simulate(ops, None, {"x": x, "w": w}, header=header)
    assert split.cycles == run.cycles
    assert np.array_equal(split.outputs["y"], x @ w)
    other = kpusim.load(ops, "core128-hbm2", header=header)
    assert kpusim.simulate(other, None, {"x": x, "w": w}).platform == "core128-hbm2"
    assert kpusim.simulate(HEADER + OPS, None, {"x": x, "w": w}).cycles == run.cycles
    assert other.check() == []
    with pytest.raises(kpusim.UserError, match="no header"):
        kpusim.load(ops)
    with pytest.raises(kpusim.UserError, match="header is for: tile schedule"):
        kpusim.load(GEMM, header=header)
    with pytest.raises(kpusim.UserError, match="loaded already"):
        kpusim.simulate(other, header=header)
    with pytest.raises(TypeError, match="'haeder'"):
        kpusim.load(ops, haeder=header)
    with pytest.raises(TypeError, match="'haeder'"):
        kpusim.simulate(ops, haeder=header)


def test_container_and_text(tmp_path: Path) -> None:
    """A program, its container and its bytes are the same program."""
    program = kpusim.load(GEMM)
    program.save(tmp_path / "gemm.kpu")
    assert kpusim.load(tmp_path / "gemm.kpu").text() == program.text()
    assert kpusim.Program.of(program.to_bytes()).text() == program.text()
    device = program.platform()
    assert device is not None
    assert device.name == "npm_lite"


def test_what_is_no_program(tmp_path: Path) -> None:
    """It is refused by saying what it was compared with."""
    (tmp_path / "picture.kpu").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "empty.nem").write_bytes(b"")
    for path in (tmp_path / "picture.kpu", tmp_path / "empty.nem", tmp_path):
        with pytest.raises(kpusim.UserError, match=r"none of: \.kpu program, .*NEM text"):
            kpusim.load(path)
    with pytest.raises(kpusim.UserError, match="never unpickles"):
        kpusim.Program.of(pickle.dumps([1]))


@pytest.fixture(scope="module")
def traced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every trace of the command, as files named like their kind."""
    folder = tmp_path_factory.mktemp("traces")
    options = [word for row in kpusim.trace_formats() for word in (f"--{row.name}", folder / row.name)]
    burst = ("--set", "ddr.fidelity=burst")
    command("run", GEMM, "--mode", "timing", "--quiet", *burst, "--events", folder / "events", *options)
    return folder


def test_every_trace_equals_the_commands(traced: Path, tmp_path: Path) -> None:
    """Every trace has the same bytes: of a run without records, of one with them, of an event file."""
    names = [row.name for row in kpusim.trace_formats()]
    assert set(names) == {
        "vcd", "fst", "power", "flp", "ptrace", "stalls", "memory-trace", "dram-traffic", "dram-page",
        "perfetto", "konata",
    }  # fmt: skip
    burst: dict[str, Any] = {"ddr.fidelity": "burst"}
    runs = [kpusim.simulate(GEMM, mode="timing", events=record, **burst) for record in (False, "accesses")]
    writers = [run.write_trace for run in runs] + [kpusim.Events.load(traced / "events").write_trace]
    for write in writers:
        for name in names:
            write(name, tmp_path / "trace")
            assert (tmp_path / "trace").read_bytes() == (traced / name).read_bytes(), name


def test_part_of_a_trace_and_its_options(traced: Path, tmp_path: Path) -> None:
    """Window, units, causes, operations, sampling, viewer files and options are those of `kpusim export`."""
    events = kpusim.Events.load(traced / "events")
    common = ["--trace-window", "1000:5000", "--trace-filter", "e0_*", "--trace-filter", "sdma?"]
    for name, options in (("stalls", {}), ("perfetto", {"perfetto_time": "ns"}), ("memory-trace", {})):
        more = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        command("export", traced / "events", f"--{name}", tmp_path / "command", *common, *more)
        events.write_trace(
            name, tmp_path / "package", window=(1000, 5000), units=["e0_*", "sdma?"], **options
        )
        assert (tmp_path / "package").read_bytes() == (tmp_path / "command").read_bytes(), name
    command("export", traced / "events", "--stalls", tmp_path / "command", "--trace-window", "5000:")
    events.write_trace("stalls", tmp_path / "package", window=(5000, None))
    assert (tmp_path / "package").read_bytes() == (tmp_path / "command").read_bytes()
    view = ["--trace-cause", "stalled.*", "--trace-op", "l?", "--trace-every", "1us", "--viewer-files"]
    command("export", traced / "events", "--vcd", tmp_path / "command", *view)
    events.write_trace(
        "vcd", tmp_path / "package", causes=["stalled.*"], ops=["l?"], every="1us", viewer_files=True
    )
    for end in ("", ".causes", ".sucl"):
        ours, its = (tmp_path / f"{name}{end}" for name in ("package", "command"))
        assert ours.read_bytes() == its.read_bytes(), end
    assert (tmp_path / "package.gtkw").exists()


def test_wrong_traces(tmp_path: Path) -> None:
    """Names that are no trace, option or window are refused; so is a recording without requests."""
    run = kpusim.simulate(GEMM, mode="timing", events=True)
    with pytest.raises(kpusim.UserError, match=r"no trace `perfeto`\. Fix: did you mean `perfetto`"):
        run.write_trace("perfeto", tmp_path / "t")
    with pytest.raises(TypeError, match="no option 'time'"):
        run.write_trace("perfetto", tmp_path / "t", time="ns")
    with pytest.raises(kpusim.UserError, match="does not take `us`"):
        run.write_trace("perfetto", tmp_path / "t", perfetto_time="us")
    with pytest.raises(kpusim.UserError, match="ends before it begins"):
        run.write_trace("vcd", tmp_path / "t", window=(7, 7))
    with pytest.raises(kpusim.UserError, match="no memory accesses"):
        run.events.write_trace("memory-trace", tmp_path / "t")
    with pytest.raises(kpusim.UserError, match="functional run has no time"):
        kpusim.simulate(GEMM, mode="functional", fill=1).write_trace("memory-trace", tmp_path / "t")
    assert list(tmp_path.iterdir()) == []
