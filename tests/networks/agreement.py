"""Whether each network is race-free, free of warnings, and has one result, on each device in each precision.

usage: agreement.py KPUSIM [--models FOLDER] [--network NAME]... [--device NAME]...

Compiles the networks for every pair of device and precision of the page of measured networks (page.py). For
each: ``check --strict`` finds nothing, a ``--strict`` run with values and time reports nothing, and a
functional run in a random order of tasks gives the same bytes. Prints a line for each; exit 1 where one does
not hold. A device may refuse a network only for a type that it lacks or for its DDR.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from page import DEVICES, MODELS, Case, cases, export, refusal

#: Reasons that a refusal may have; the rest of the text names the tensor or the type.
ALLOWED = ("does not fit", "has no", "type")
FILL = ("--fill", "random:5")


def outputs(folder: Path) -> dict[str, bytes]:
    """The files of a run's outputs."""
    return {path.name: path.read_bytes() for path in sorted((folder / "outputs").iterdir())}


def verdict(kpusim: str, model: Path, case: Case) -> tuple[bool, str]:
    """Return whether all holds, and what to print."""

    def told(*arguments: object) -> None:
        subprocess.run([kpusim, *map(str, arguments)], check=True, capture_output=True, text=True)

    with tempfile.TemporaryDirectory() as name:
        program, timed, functional = (Path(name) / part for part in ("n.kpu", "timed", "functional"))
        calibrate = ["--calibrate", "random:1"] if case.precision.startswith(("int", "fp8")) else []
        options = ["--platform", case.device, "--precision", case.precision, "--batch", case.batch]
        try:
            told("compile", model, *options, *calibrate, "-o", program)
        except subprocess.CalledProcessError as error:
            reason = refusal(error)
            return any(part in reason for part in ALLOWED), f"refused: {reason}"
        try:
            told("check", program, "--strict")
            told("run", program, "--strict", "--quiet", *FILL, "-o", timed)
            order = ["--mode", "functional", "--order", "random:7"]
            told("run", program, "--strict", "--quiet", *order, *FILL, "-o", functional)
        except subprocess.CalledProcessError as error:
            return False, f"`{error.cmd[1]}`: exit {error.returncode}: {error.stderr.strip()[-400:]}"
        made = outputs(timed)
        if not made:
            return False, "no outputs"
        if made != outputs(functional):
            return False, "functional and timed outputs differ"
        return True, f"{len(made)} outputs, {sum(map(len, made.values())):,} bytes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    from networks import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--network", action="append", choices=list(NETWORKS))
    parser.add_argument("--device", action="append", choices=list(DEVICES))
    given = parser.parse_args(arguments)
    todo = [
        case
        for case in cases(given.network or list(NETWORKS))
        if not given.device or case.device in given.device
    ]
    wrong = 0
    with ThreadPoolExecutor(2) as pool:
        models = {name: export(name, given.models) for name in dict.fromkeys(case.network for case in todo)}
        found = pool.map(lambda case: verdict(given.kpusim, models[case.network], case), todo)
        for case, (holds, text) in zip(todo, found, strict=True):
            wrong += not holds
            print(f"{'ok   ' if holds else 'WRONG'} {' '.join(map(str, case))}: {text}", flush=True)
    print(f"{len(todo) - wrong} of {len(todo)} hold")
    return 1 if wrong or not todo else 0


if __name__ == "__main__":
    sys.exit(main())
