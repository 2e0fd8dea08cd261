"""Compare what the examples compute, and in how many cycles, with the recorded runs beside this script.

Values, cycles, stall causes, bytes and energy may not depend on the compiler, the build type or the machine:
every build must give exactly the recorded numbers. A deliberate change of the model is recorded with
--update, and its difference is then read in the review.

usage: check_golden.py [--update] KPUSIM [EXAMPLE ...]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples"
OPTIONS = ("--fill", "random:1", "--json")
# what a run must reproduce; power.* and utilization.* follow from these
RECORDED = ("bytes.", "cycles.", "energy.", "hazards.", "tasks.", "units.")
SHOWN = 20

Number = int | float
Record = dict[str, dict[str, Number | str]]


def record(kpusim: Path, example: str) -> Record:
    """One run, as groups of numbers: `units.l2.busy` holds `useful`, `outputs` each output's digest."""
    with tempfile.TemporaryDirectory() as out:
        program = EXAMPLES / example / f"{example}.nem"
        run = subprocess.run(
            [str(kpusim), "run", str(program), *OPTIONS, "-o", out],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise SystemExit(f"{example}: the run failed with exit code {run.returncode}\n{run.stderr}")
        result = json.loads(run.stdout)
        if not result["complete"]:
            raise SystemExit(f"{example}: the run did not complete")
        groups: Record = {}
        for name, stat in sorted(result["stats"].items()):
            if name.startswith(RECORDED):
                group, _, leaf = name.rpartition(".")
                groups.setdefault(group, {})[leaf] = stat["value"]
        groups["outputs"] = {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted((Path(out) / "outputs").iterdir())
        }
    return groups


def text_of(groups: Record) -> str:
    """JSON with one line per group, so that a difference in the review is short."""
    lines = [f"  {json.dumps(group)}: {json.dumps(values)}" for group, values in sorted(groups.items())]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def differences(golden: Record, got: Record) -> list[str]:
    """Return one line each: first the names that only one of the two has, then the values that differ."""
    old = {f"{group}.{leaf}": value for group, values in golden.items() for leaf, value in values.items()}
    new = {f"{group}.{leaf}": value for group, values in got.items() for leaf, value in values.items()}
    lines = [f"{name}: is recorded, but the run does not have it" for name in sorted(old.keys() - new.keys())]
    lines += [f"{name}: the run has it, but it is not recorded" for name in sorted(new.keys() - old.keys())]
    for name in sorted(old.keys() & new.keys()):
        a, b = old[name], new[name]
        if a == b:
            continue
        change = ""
        if not isinstance(a, str) and not isinstance(b, str):
            change = f" ({b - a:+g})"
        lines.append(f"{name}: recorded {a}, the run has {b}{change}")
    return lines


def check(kpusim: Path, example: str, update: bool) -> bool:
    """Compare one example, or record it; false if it differs."""
    path = HERE / f"{example}.json"
    got = record(kpusim, example)
    if update:
        path.write_text(text_of(got))
        print(f"{example}: recorded")
        return True
    if not path.exists():
        print(f"{example}: {path} is missing. Fix: run this script with --update.")
        return False
    found = differences(json.loads(path.read_text()), got)
    for line in found[:SHOWN]:
        print(f"{example}: {line}")
    if len(found) > SHOWN:
        print(f"{example}: ... and {len(found) - SHOWN} more differences")
    if found:
        print(
            f"Fix: if the model was changed on purpose, record it: {sys.argv[0]} --update {kpusim} {example}"
        )
    else:
        print(f"{example}: as recorded")
    return not found


def main() -> int:
    """Check every example that is named, or all that are recorded."""
    parser = argparse.ArgumentParser(description="Compare runs of the examples with the recorded ones.")
    parser.add_argument("--update", action="store_true", help="record the runs instead of comparing them")
    parser.add_argument("kpusim", type=Path, help="the command to run")
    parser.add_argument("examples", nargs="*", help="folders of examples/; without: all that are recorded")
    arguments = parser.parse_args()
    examples = arguments.examples or sorted(path.stem for path in HERE.glob("*.json"))
    results = [check(arguments.kpusim.resolve(), example, arguments.update) for example in examples]
    return 0 if results and all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
