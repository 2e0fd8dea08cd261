"""Distance of trained networks from PyTorch on the device: the table of docs/accuracy_networks.md.

usage: accuracy.py [--check] [--models FOLDER] [NAME ...]

Rows of networks that are not named stay as they are. Networks are trained when FOLDER has none (models.py).
Each is compiled for swkpu-v1 and executed, first in one type; where the bound is missed so, the compiler may
make 10 % of the multiply-accumulates wider. With --check nothing is written: fails where a network is less
right than it has to be, or a bound that the page says is held is not.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import kpusim
import numpy as np
from kpusim.precision import Mixing
from models import FOLDER, INPUTS, Floats, Trained, trained

DEVICE = "swkpu-v1"
PAGE = Path(__file__).resolve().parents[2] / "docs" / "accuracy_networks.md"
BEGIN, END = "<!-- accuracy: written by tests/trained/accuracy.py -->", "<!-- accuracy: end -->"
HEAD = (
    "network | right, float32 | precision | right | largest difference | bound | held | in one type"
    " | wider MACs | most noise left, in dB"
)
RIGHT = {"resnet18": 0.97, "mobilenet_v2": 0.97, "yolov8n": 0.9}  #: least before quantization


class Row(NamedTuple):
    """A network in a precision, and the largest difference that is asked for."""

    network: str
    precision: str
    bound: float


ROWS = (
    Row("resnet18", "fp16", 0.001),
    Row("resnet18", "int8", 0.01),
    Row("yolov8n", "fp16", 0.001),
    Row("yolov8n", "int8", 0.02),
    Row("mobilenet_v2", "int8", 0.01),
)


class Result(NamedTuple):
    """Results on all inputs."""

    right: float
    differences: dict[str, float]  #: largest, by kind of number
    beyond: int  #: inputs with a difference beyond the bound

    @property
    def largest(self) -> float:
        """Return the largest difference of all kinds."""
        return max(self.differences.values())


def execute(network: Trained, precision: str, mixing: Mixing | None = None) -> Floats:
    """Outputs of the device on all inputs."""
    options = {} if mixing is None else mixing.options()
    with tempfile.TemporaryDirectory() as folder:
        if mixing is not None or precision == "int8":
            for index, one in enumerate(network.calibration):
                np.save(Path(folder) / f"{index:03}.npy", one)
            options["calibrate"] = folder
        program = kpusim.compile(network.onnx, DEVICE, precision, **options)
    runs = [
        kpusim.simulate(program, inputs={"image": one[None]}, mode="functional") for one in network.inputs
    ]
    return np.concatenate([next(iter(run.outputs.values())) for run in runs])


def compare(network: Trained, outputs: Floats, bound: float) -> Result:
    """With PyTorch's in float32."""
    got, want = network.values(outputs), network.values(network.exact)
    largest = {name: np.abs(got[name] - want[name]).reshape(len(outputs), -1).max(1) for name in want}
    beyond = np.any([each > bound for each in largest.values()], axis=0)
    return Result(
        network.quality(outputs),
        {name: float(each.max()) for name, each in largest.items()},
        int(beyond.sum()),
    )


def mix_of(report: Path, precision: str) -> tuple[str, str]:
    """Share of the multiply-accumulates that are wider; the narrow layers that add most noise."""
    layers = list(csv.DictReader(report.read_text(encoding="utf-8").splitlines()))
    noise = f"snr_{precision}_db"
    wide = sum(int(row["macs"]) for row in layers if row["precision"] != precision)
    total = sum(int(row["macs"]) for row in layers)
    left = [row for row in layers if row["precision"] == precision and row[noise] not in ("exact", "none")]
    left.sort(key=lambda row: float(row[noise]))
    return f"{wide / total:.1%}", ", ".join(f"`{row['layer']}` {row[noise]}" for row in left[:3])


def cells(row: Row, network: Trained) -> list[str]:
    """Return the cells of a row."""
    one_type = found = compare(network, execute(network, row.precision), row.bound)
    share, worst = "0 %", ""
    if found.beyond > 0:
        with tempfile.TemporaryDirectory() as folder:
            report = Path(folder) / "layers.csv"
            mixed = execute(network, row.precision, Mixing(accuracy="best", report_accuracy=report))
            found = compare(network, mixed, row.bound)
            share, worst = mix_of(report, row.precision)
    listed = ", ".join(f"{value:.1e} ({name})" for name, value in found.differences.items())
    return [
        row.network,
        f"{network.quality(network.exact):.1%}",
        row.precision,
        f"{found.right:.1%}",
        listed,
        f"{row.bound:g}",
        "yes" if found.beyond == 0 else f"**no**, {found.beyond} of {len(network.inputs)} beyond",
        f"{one_type.largest:.1e}",
        share,
        worst,
    ]


def known_rows() -> dict[tuple[str, str], list[str]]:
    """Return the rows of the page, by network and precision."""
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        found = [cell.strip() for cell in line.strip("|").split("|")]
        if len(found) == len(HEAD.split("|")) and found[2] in ("fp16", "int8"):
            rows[found[0], found[2]] = found
    return rows


def write(rows: dict[tuple[str, str], list[str]]) -> None:
    """Between the marks of the page."""
    text = PAGE.read_text(encoding="utf-8")
    lines = [f"| {HEAD} |", "|---" * len(HEAD.split("|")) + "|"]
    lines += [f"| {' | '.join(rows[row[:2]])} |" for row in ROWS if row[:2] in rows]
    before, after = text[: text.index(BEGIN)], text[text.index(END) :]
    PAGE.write_text("\n".join([before + BEGIN, "", *lines, "", after]), encoding="utf-8")


def main() -> int:
    """Measure, then write or check."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RIGHT))
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--models", type=Path, default=FOLDER)
    given = parser.parse_args()
    if unknown := set(given.names) - set(RIGHT):
        parser.error(
            f"no network {', '.join(sorted(unknown))}. Fix: name some of {', '.join(RIGHT)}, or none."
        )
    rows, wrong = known_rows(), 0
    fresh: dict[tuple[str, str], list[str]] = {}
    for name in given.names or RIGHT:
        network = trained(name, given.models)
        if network.quality(network.exact) < RIGHT[name]:
            print(
                f"{name} is less right than {RIGHT[name]:.0%}. Fix: train it longer (digits.py, detector.py)."
            )
            wrong += 1
        for row in [each for each in ROWS if each.network == name]:
            made = cells(row, network)
            print(*made, sep=" | ", flush=True)
            if given.check and made[6] != "yes" and rows.get(row[:2], made)[6] == "yes":
                print(f"  the page says that {row.bound:g} is held, on {INPUTS} inputs. Fix: look why not.")
                wrong += 1
            fresh[row[:2]] = made
    if not given.check:
        write(known_rows() | fresh)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
