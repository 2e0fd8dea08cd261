"""The command `kpusim llm`: report, tables, folder, errors."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import onnx
import pytest
from kpusim.llm.report import FILES

Command = Callable[..., subprocess.CompletedProcess[str]]
SMALL = (
    "--prompt",
    "8",
    "--context",
    "16,32",
    "--platform",
    "npm_lite",
    "--precision",
    "fp16",
    "--effort",
    "1",
)


def test_tables_agree(config: Callable[..., Path], command: Command) -> None:
    """Report, CSV and JSON tell the same steps."""
    path = config("llama")
    text = command(path, *SMALL).stdout
    rows = list(csv.DictReader(io.StringIO(command(path, *SMALL, "--csv").stdout)))
    tree = json.loads(command(path, *SMALL, "--json").stdout)
    assert [(row["phase"], int(row["length"])) for row in rows] == [
        ("prompt", 8),
        ("token", 16),
        ("token", 32),
    ]
    for row, other in zip(rows, tree["rows"], strict=True):
        assert int(row["cycles"]) == other["cycles"]
        assert float(row["time_us"]) == pytest.approx(other["time_us"])
        assert f"{other['time_us'] / 1e3:.3f} ms" in text
        assert float(row["tokens_per_s"]) == pytest.approx(other["tokens_per_s"])
    assert tree["schema"] == 1 and tree["precision"] == "fp16" and len(tree["pieces"]) == 4
    assert "context 32, batch 1" in text and "what would help" in text and "note: weights fp16" in text
    assert command(path, *SMALL, "--quiet").stdout == ""


def test_folder(config: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    """Folders of -o have what is promised; what is there already stays, and its models run."""
    path, folder = config("llama"), tmp_path / "out"
    told = command(path, *SMALL, "-o", folder).stdout
    assert sorted(entry.name for entry in folder.iterdir()) == sorted([*FILES, "models"])
    assert (folder / "report.txt").read_text() == told
    models = sorted((folder / "models").iterdir())
    assert len(models) == 4
    for model in models:
        assert model.stat().st_size < 20_000  # no byte of a weight
        onnx.load(model, load_external_data=False)
    run = subprocess.run(
        [os.environ["KPUSIM"], "run", models[0], "--mode", "timing", "--platform", "npm_lite", "--precision",
         "fp16", "--effort", "1", "--json"],
        check=True, capture_output=True, text=True,
    )  # fmt: skip
    piece = json.loads((folder / "llm.json").read_text())["pieces"][0]
    assert json.loads(run.stdout)["stats"]["cycles.total"]["value"] == piece["cycles.total"]
    mine = folder / "mine.txt"
    mine.write_text("mine")
    ours = folder / "models/my_layer.onnx"
    ours.write_text("ours")
    assert (
        "is not empty. Fix: give a new folder, or `kpusim llm --force`."
        in command(path, *SMALL, "-o", folder, code=1).stderr
    )
    assert command(path, *SMALL, "-o", folder, "--force").stdout == told
    assert mine.read_text() == "mine" and ours.read_text() == "ours"


def test_errors(config: Callable[..., Path], command: Command, tmp_path: Path) -> None:
    """Errors are one line, with the fix; no file remains."""
    for words, said in (
        (("none.json",), "No such file or directory. Fix: "),
        (
            (config("llama"), "--context", "0"),
            "`0` is not a whole number above 0. Fix: see `kpusim llm --help`.",
        ),
        ((config("llama"), "--set", "ddr.channels"), "is not NAME=VALUE. Fix: "),
        ((config("llama"), "--set", "ddr.chanels=2"), "ddr.channels"),
        ((config("llama"), "--platform", "none"), "none"),
        ((config("llama"), "--json", "--csv"), "not allowed with argument"),
        ((config("gemma2", sliding_window=0),), "`sliding_window` is 0. Fix: "),
    ):
        result = command(*words, code=1)
        assert result.stdout == "" and said in result.stderr and len(result.stderr.splitlines()) == 1


def test_reached_by_the_command(config: Callable[..., Path], tmp_path: Path) -> None:
    """`kpusim llm` calls kpusim-llm of the path, and names the package where there is none."""
    kpusim, script = Path(os.environ["KPUSIM"]), tmp_path / "bin/kpusim-llm"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m kpusim.llm.command \"$@\"\n")
    script.chmod(0o755)
    words = [kpusim, "llm", config("llama"), *SMALL]
    env = {**os.environ, "PATH": f"{script.parent}:/usr/bin:/bin"}
    done = subprocess.run(words, capture_output=True, text=True, env=env, check=True)
    assert done.stdout.startswith("llama (llama) on npm_lite: 3 layers")
    env["PATH"] = "/usr/bin:/bin"
    lost = subprocess.run(words, capture_output=True, text=True, env=env, check=False)
    assert lost.returncode == 1 and "Fix: `pip install 'kpusim[llm]'`." in lost.stderr
