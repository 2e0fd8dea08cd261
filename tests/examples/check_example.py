"""Run one example through the command in every mode and compare its output with its NumPy reference.

usage: check_example.py KPUSIM EXAMPLE_DIR
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np


def ulps(a: np.ndarray, b: np.ndarray) -> int:
    """Largest distance of two f16 arrays in units of the last place; integers: largest difference."""
    if a.dtype == np.float16:
        a, b = (
            np.where(x.view(np.int16) < 0, -32768 - x.view(np.int16).astype(int), x.view(np.int16))
            for x in (a, b)
        )
    return int(np.max(np.abs(a.astype(np.int64) - b.astype(np.int64)))) if a.size else 0


def run(kpusim: str, program: Path, data: dict[str, Path], out: Path, *options: str) -> dict[str, object]:
    """Statistics of one run."""
    command = [kpusim, "run", str(program), "-o", str(out), "--quiet", *options]
    for name, path in data.items():
        command += ["--input", f"{name}={path}"]
    subprocess.run(command, check=True)
    return json.loads((out / "stats.json").read_text())["stats"]


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file of a run folder but the manifest."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "manifest.json"
    }


def main() -> None:
    """Check values, modes and determinism."""
    kpusim, folder = sys.argv[1], Path(sys.argv[2])
    spec = importlib.util.spec_from_file_location("reference", folder / "reference.py")
    assert spec is not None and spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    program = folder / f"{folder.name}.nem"
    arrays = reference.inputs()
    expected = reference.expected(arrays)
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        data = {}
        for name, array in arrays.items():
            data[name] = work / f"{name}.npy"
            np.save(data[name], np.ascontiguousarray(array))
        modes = {
            "timed": (),
            "again": (),
            "functional": ("--mode", "functional"),
            **{f"random{s}": ("--mode", "functional", "--order", f"random:{s}") for s in range(5)},
        }
        for mode, options in modes.items():
            run(kpusim, program, data, work / mode, *options)
            for name, want in expected.items():
                got = np.load(work / mode / "outputs" / f"{name}.npy")
                assert got.shape == want.shape and got.dtype == want.dtype, (mode, name, got.shape, got.dtype)
                distance = ulps(got, want)
                assert distance <= reference.ULPS, f"{mode}: {name} differs from NumPy by {distance} ulp"
        assert files_of(work / "timed") == files_of(work / "again"), "two runs differ"
        timed = json.loads((work / "timed" / "stats.json").read_text())
        assert timed["complete"] is True
        timing = run(kpusim, program, data, work / "timing", "--mode", "timing")
        # without values nothing can tell that a rewrite is harmless
        assert timing["cycles.total"] == timed["stats"]["cycles.total"], "timing mode has other cycles"
        assert timing["energy.total_uj"] == timed["stats"]["energy.total_uj"], (
            "timing mode has another energy"
        )
        print(f"{folder.name}: {timed['stats']['cycles.total']['value']} cycles, values equal NumPy's")


if __name__ == "__main__":
    main()
