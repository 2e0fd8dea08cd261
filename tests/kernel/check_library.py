"""Every kernel of examples/kernels through the command: values as NumPy has them, in both modes; its text.

usage: check_library.py KPUSIM EXAMPLES_KERNELS_DIR [--table]

--table prints the table of cycles of docs/kernels.md.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numpy as np


def library(folder: Path) -> ModuleType:
    """Return the folder's library.py."""
    spec = importlib.util.spec_from_file_location("library", folder / "library.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["library"] = module
    spec.loader.exec_module(module)
    return module


def run(command: list[str]) -> None:
    """Run to its end."""
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {result.returncode}\n{result.stdout}{result.stderr}")


def outputs(folder: Path, names: list[str]) -> dict[str, bytes]:
    """The outputs of a run, as bytes."""
    return {name: (folder / "outputs" / f"{name}.npy").read_bytes() for name in names}


def check(kpusim: str, name: str, case: object, text: str, folder: Path, work: Path) -> dict[str, int]:
    """Return one kernel; its cycles."""
    for file in folder.glob("*.kern"):
        shutil.copy(file, work)
    program = work / f"{name}.nem"
    program.write_text(text)
    command = [kpusim, "run", str(program), "--quiet"]
    for key, array in case.reads.items():
        np.save(work / f"{key}.npy", array)
        command += ["--input", f"{key}={work / key}.npy"]
    run([*command, "-o", str(work / "timed")])
    run([*command, "-o", str(work / "functional"), "--mode", "functional"])
    names = list(case.writes)
    assert outputs(work / "timed", names) == outputs(work / "functional", names), f"{name}: the modes differ"
    for key, wanted in case.expected(case.reads).items():
        got = np.load(work / "timed" / "outputs" / f"{key}.npy").ravel()
        assert got.dtype == wanted.dtype, f"{name}: {key} is {got.dtype}"
        if case.tolerance == 0:
            assert np.array_equal(got, wanted), f"{name}: {key} is {got}, wanted {wanted}"
        else:
            error = np.max(np.abs(got - wanted)) / np.max(np.abs(wanted))
            assert error <= case.tolerance, f"{name}: {key} is off by {error}"
    there = work / "there"
    there.mkdir()
    run([kpusim, "asm", str(program), "-o", str(work / "p.kpu")])
    run([kpusim, "disasm", str(work / "p.kpu"), "-o", str(there / "p.nem")])
    run([kpusim, "asm", str(there / "p.nem"), "-o", str(work / "q.kpu")])
    assert (work / "p.kpu").read_bytes() == (work / "q.kpu").read_bytes(), f"{name}: text loses something"
    stats = json.loads((work / "timed" / "stats.json").read_text())["stats"]
    busy = {key: value["value"] for key, value in stats.items() if key.startswith("units.e0_vpu0.")}
    worked = busy["units.e0_vpu0.busy.useful"] + busy["units.e0_vpu0.busy.padding"]
    assert worked > 0, f"{name}: the vector unit did nothing"
    assert stats["cycles.unattributed"]["value"] == 0, name
    stalled = sum(value for key, value in busy.items() if ".stalled." in key)
    kinds = {kind: busy[f"units.e0_vpu0.busy.{kind}"] for kind in ("useful", "padding", "fill_drain")}
    return {"total": stats["cycles.total"]["value"], **kinds, "stalled": stalled}


def main() -> None:
    """Check all, or print the table."""
    kpusim, folder = sys.argv[1], Path(sys.argv[2])
    module = library(folder)
    if "--table" in sys.argv:
        print("| kernel | total | useful | padding | fill, drain |\n|---|---|---|---|---|")
    for name, case in module.cases().items():
        with tempfile.TemporaryDirectory() as work:
            cycles = check(kpusim, name, case, module.program(name, case), folder, Path(work))
        if "--table" in sys.argv:
            row = [name, *(cycles[key] for key in ("total", "useful", "padding", "fill_drain"))]
            print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
