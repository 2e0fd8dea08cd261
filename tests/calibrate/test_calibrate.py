"""Fits find planted parameters again, and say what they cannot tell; the command writes and checks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import planted
import pytest
from conftest import ROOT, TWO
from kpusim.calibrate import Calibration, calibrate, check
from kpusim.calibrate.fitting import check_distinct
from kpusim.calibrate.measured import read_measured
from kpusim.calibrate.operations import FORMS, Operation
from kpusim.calibrate.parameters import Parameter, parameters_of
from kpusim.calibrate.written import plain_text
from kpusim.errors import UserError
from kpusim.platform import Platform
from kpusim.program import Program
from kpusim.simulation.running import simulate

Command = Callable[..., subprocess.CompletedProcess[str]]
NAMES = ",".join(TWO)


@pytest.fixture(scope="module")
def five(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """A fit of five parameters to noisy times, without a quarter of the rows."""
    path = planted.measure(tmp_path_factory.mktemp("five"), 36, 13, planted.TRUTH, noise=0.002)
    return calibrate(path, planted.BASE, list(planted.TRUTH), sets=planted.SETS, hold_out="0.25", workers=1)


def test_five_parameters_are_found(five: Calibration) -> None:
    """Each within 1 % of what was planted, and within its interval, or nearly."""
    assert max(planted.distances(five, planted.TRUTH).values()) <= 0.01
    for item in five.fitted:
        truth = float(planted.TRUTH[item.parameter.name])
        assert abs(item.value - truth) <= 4 * item.error + 0.5 * item.parameter.whole, item
        assert item.low < item.value < item.high
        assert not item.at_bound


def test_held_out_rows_improve(five: Calibration) -> None:
    """Rows that the fit has not seen come to the noise of the measurements; so do all groups by cause."""
    held = five.held_out
    assert held is not None
    assert held.before.rows == 9 and five.all_rows.before.rows == 27
    assert held.before.mean > 0.1
    assert held.after.mean < 3 * planted.NOISE
    assert len(five.by_cause) >= 3
    assert all(item.after.mean < item.before.mean for item in five.by_cause if item.before.mean > 0.02)


def test_alike_parameters_are_refused(times: Path) -> None:
    """Two that act alike are named, and so is one that nothing depends on; others are not."""
    pair = ["ddr.controller_latency_ns", "system_dma.descriptor_cycles"]
    with pytest.raises(
        UserError, match=r"cannot tell `ddr.*ns` and `system_dma.*` apart \(correlation \+0\.99"
    ):
        calibrate(times, planted.BASE, [*pair, "engine.vector.pipeline_latency_cycles"], workers=1)
    with pytest.raises(UserError, match=r"no row depends on `sequencer\.max_active_tokens`"):
        calibrate(times, planted.BASE, ["sequencer.max_active_tokens", pair[0]], workers=1)


def test_directions_beside_linear_algebra() -> None:
    """The named parameters fit slopes whose null direction is known."""
    names = ("a", "b", "c", "d")
    parameters = [Parameter(name, "", False, 1.0, 0.1, 8.0) for name in names]
    generator = np.random.default_rng(3)
    slopes = generator.standard_normal((30, 4))
    check_distinct(parameters, slopes)
    slopes[:, 3] = slopes[:, 0] + slopes[:, 1]  # three that cannot be told apart, and one that can
    with pytest.raises(UserError, match="cannot tell `a` and `b` and `d` apart"):
        check_distinct(parameters, slopes)
    slopes[:, 3] = -2 * slopes[:, 2] + 1e-4 * generator.standard_normal(30)
    with pytest.raises(UserError, match=r"cannot tell `c` and `d` apart \(correlation -1\.0000\)"):
        check_distinct(parameters, slopes)
    slopes[:, 3] = 1e-6
    with pytest.raises(UserError, match="no row depends on `d`"):
        check_distinct(parameters, slopes)


def test_standard_errors_are_those_of_many_fits(tmp_path: Path) -> None:
    """The spread of fits to differently noisy times is what each of them states."""
    values, stated = [], []
    name = "engine.vector.pipeline_latency_cycles"
    path = planted.measure(tmp_path, 12, 3, {name: 40}, noise=0.0)
    exact = path.read_text().splitlines()
    for seed in range(12):
        factors = np.exp(0.05 * np.random.default_rng(seed).standard_normal(12))
        rows = [line.rsplit(",", 1) for line in exact[1:]]
        path.write_text(
            "\n".join([exact[0], *(f"{a},{float(t) * f}" for (a, t), f in zip(rows, factors, strict=True))])
        )
        found = calibrate(path, planted.BASE, [name], sets=planted.SETS, workers=1)
        values.append(found.fitted[0].value)
        stated.append(found.fitted[0].error)
    assert 0.4 < np.std(values) / np.mean(stated) < 2.5, (values, stated)


def test_groups_are_held_out_in_turn(times: Path) -> None:
    """A class without which a parameter is not told is said so; the others improve."""
    found = calibrate(times, planted.BASE, list(TWO), sets=planted.SETS, hold_out="class", workers=1)
    assert found.held_out is None
    assert [item.name for item in found.by_split] == ["l2", "product"]
    assert ["without `ddr`" in found.notes[0], "without `vector`" in found.notes[1]] == [True, True]
    assert "no row depends on `engine.vector.pipeline_latency_cycles`" in found.notes[1]


def test_shapes_are_simulated_as_their_models(tmp_path: Path) -> None:
    """A row that states a shape has the cycles of its ONNX model, compiled and run by hand."""
    rows = [
        ("matmul", "64x96x32", "fp16"), ("conv", "8x14x14 16x3x3 stride=2 pad=1", "int8"),
        ("add", "16x64", "fp16"), ("relu", "4x8x16", "fp16"), ("softmax", "16x64", "fp16"),
    ]  # fmt: skip
    path = tmp_path / "rows.csv"
    path.write_text("operation,shape,type,cycles\n" + "".join(f"{','.join(row)},1000\n" for row in rows))
    found = check(path, "npm_lite", max_error=1e3, workers=1)
    errors = []
    for kind, shape, precision in rows:
        Operation.parse(kind, shape).write(tmp_path / "model.onnx")
        more = {} if precision == "fp16" else {"calibrate": "random:1"}
        program = Program.load(tmp_path / "model.onnx", platform="npm_lite", precision=precision, **more)
        errors.append(abs(simulate(program, mode="timing").stats["cycles.total"] / 1000 - 1))
    assert found.errors.rows == len(rows)
    assert found.errors.mean == pytest.approx(np.mean(errors))


def test_files_of_validate_are_taken(tmp_path: Path) -> None:
    """Their schedules have the cycles that `kpusim validate` gives them; a latency is fitted to them."""
    silicon = (ROOT / "tests/reference/silicon/gemmini16_moca_layers.csv").read_text().splitlines()
    chosen = [line for line in silicon if line.startswith(("alexnet,matmul", "resnet,resadd"))]
    small = [line for line in chosen if not line.endswith("?")][:12]
    path = tmp_path / "layers.csv"
    path.write_text("\n".join([*silicon[:2], *small, ""]))
    kpusim = os.environ.get("KPUSIM", "build/release/bin/kpusim")
    words = [kpusim, "validate", path, "--platform", "gemmini16", "--no-own-choice", "--json"]
    said = json.loads(subprocess.run(words, capture_output=True, check=True, timeout=100).stdout)
    known = {row["row"]: (row["simulated"], row["measured"]) for row in said["rows"]}
    found = check(path, "gemmini16", max_error=1.0, workers=1)
    rows = read_measured(path).rows
    assert len(rows) >= 8 and found.errors.rows == len(rows)
    errors = [abs(known[row.name][0] / known[row.name][1] - 1) for row in rows]
    assert found.errors.mean == pytest.approx(np.mean(errors))
    fitted = calibrate(path, "gemmini16", ["ddr.controller_latency_ns"], keep_outliers=True, workers=1)
    assert fitted.all_rows.after.mean < fitted.all_rows.before.mean
    assert 30 <= fitted.values["ddr.controller_latency_ns"] <= 80


@pytest.mark.parametrize("kind", FORMS)
def test_every_form_is_read(kind: str) -> None:
    """The example that a form gives is one."""
    example = FORMS[kind].partition("such as ")[2]
    found = Operation.parse(kind, example)
    assert found.kind == kind and all(found.sizes)


def test_spans_count(times: Path, tmp_path: Path) -> None:
    """Measured parts of rows have errors of their own, which the fit makes small."""
    for program in times.parent.glob("*.nem"):
        shutil.copy(program, tmp_path)
    rows = [line.split(",") for line in times.read_text().splitlines()[1:]]
    truth = Platform.load(planted.BASE).with_(**planted.SETS, **TWO)
    lines = ["program,class,cycles,cycles.memory_stall"]
    for name, kind, _ in rows:
        stats = simulate(tmp_path / name, truth, mode="timing", hazards=False).stats
        lines.append(f"{name},{kind},{stats['cycles.total']},{stats['cycles.memory_stall']}")
    path = tmp_path / "spans.csv"
    path.write_text("\n".join(lines))
    found = calibrate(path, planted.BASE, list(TWO), sets=planted.SETS, workers=1)
    assert found.values == TWO
    [span] = found.spans
    assert span.before.mean > 0.05 and span.after.mean == 0


def test_platform_is_written_and_checked(times: Path, tmp_path: Path, command: Command) -> None:
    """The file extends the old platform, says where its values are from, and passes; a worse one does not."""
    target = tmp_path / "mine.textproto"
    words = [times, "--platform", planted.BASE, "--fit", NAMES, "--set", "clock.array_mhz=1000"]
    tree = json.loads(command(*words, "-o", target, "--json").stdout)
    text = target.read_text()
    assert f"sha256 {read_measured(times).digest}" in text and "# command: kpusim calibrate" in text
    assert 'extends: "npm_lite"' in text and "standard error" in text
    made = Platform.load(target)
    by_hand = Platform.load(planted.BASE).with_(
        **{"clock.array_mhz": 1000}, **{row["name"]: row["fitted"] for row in tree["parameters"]}
    )
    assert made.name == "mine" and plain_text(made) == plain_text(by_hand)
    said = command(times, "--platform", target, "--check").stdout
    assert ", within " in said
    target.write_text(text.replace("controller_latency_ns: 6", "controller_latency_ns: 9"))
    assert ", above " in command(times, "--platform", target, "--check", code=3).stdout
    command(times, "--platform", target, "--check", "--max-error", "90%")
    command(times, "--platform", planted.BASE, "--check", "--max-error", "1%", code=3)
    again = tmp_path / "again.textproto"  # a calibrated one is calibrated further, by the same programs
    command(times, "--platform", target, "--fit", NAMES, "-o", again)
    assert 'extends: "mine.textproto"' in again.read_text()
    assert "# programs compiled for: npm_lite" in again.read_text()
    command(times, "--platform", again, "--check")


def test_bounds(times: Path) -> None:
    """A fit stays in them, and says that it is at one."""
    from kpusim.calibrate.report import text_of

    bounds = {"ddr.controller_latency_ns": (20.0, 40.0)}
    found = calibrate(
        times, planted.BASE, list(TWO), sets=planted.SETS, bounds=bounds, workers=1, keep_outliers=True
    )
    assert found.values["ddr.controller_latency_ns"] == 40
    assert "ends at its bound 40" in text_of(found)
    [parameter] = parameters_of(Platform.load("npm_lite"), ["ddr.data_rate_mtps"], {})
    assert parameter.low == 400 and 3200 <= parameter.high <= 3300  # the device's own rate is the most
