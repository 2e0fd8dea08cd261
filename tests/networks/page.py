"""Costs of the example networks on the shipped devices: docs/networks_measured.md and its rooflines.

usage: page.py KPUSIM [--models FOLDER] [--network NAME]... [--inputs N] [--check]

Runs each network on each device in each precision, without values, and writes the rows of these networks;
the accuracy of each precision on N inputs (64; centred.py), on the first device that has it; with 0 the
page's own figures stay.
With ``--check`` writes nothing, and fails where a row differs from the page (processor times aside).
Networks are exported from examples/networks into FOLDER, or taken from there.
"""

from __future__ import annotations

import argparse
import csv
import functools
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "networks"))
import made

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "networks_measured.md"
ROOFLINES = ROOT / "docs" / "rooflines"
EXAMPLES = ROOT / "examples" / "networks"
MODELS = ROOT / "build" / "networks"

DEVICES = {
    "swkpu-v1": ("int8", "fp16"),
    "swkpu-v2": ("int4", "bf16", "posit8", "posit16"),
    "tile32": ("int8", "fp16", "bf16", "f32"),
    "npm_lite": ("int8", "fp16"),
    "core128-hbm2": ("int8", "bf16", "f32"),
    "core128-fp8": ("fp8", "fp8_e5m2"),
}
ROOFLINE = ("swkpu-v1", "int8")
BATCH = {"resnet50": (8,), "bert_base": (8,)}  #: more than one inference, on the device with most arithmetic
BATCH_DEVICE = ("core128-hbm2", "bf16")
SHARE = 0.005  #: of the cycles: smaller operations are charged mostly what their neighbours leave over
BITS = {
    "I4": 4,
    "I8": 8,
    "U8": 8,
    "POSIT8": 8,
    "F8E4M3": 8,
    "F8E5M2": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "POSIT16": 16,
}
HEAD = (
    "network | device | precision | batch | cycles | ms | inferences/s | arrays: spatial x temporal"
    " | cycles / least | DRAM / compulsory | uJ each | most of the rest | predicted | operations | dB"
    " | seconds"
)


class Case(NamedTuple):
    """A network on a device."""

    network: str
    device: str
    precision: str
    batch: int


class Measured(NamedTuple):
    """A row of the page, the cells after the case; operations for the roofline."""

    cells: list[str]
    operations: list[dict[str, str]]
    peak: float  #: MACs per cycle
    bandwidth: float  #: DRAM bytes per cycle


def cases(networks: list[str]) -> Iterator[Case]:
    """All rows of these networks, in the order of the page."""
    for network in networks:
        for device, precisions in DEVICES.items():
            for precision in precisions:
                yield Case(network, device, precision, 1)
        for batch in BATCH.get(network, ()):
            yield Case(network, *BATCH_DEVICE, batch)


@functools.cache
def digest() -> str:
    """Return the digest of what the models are made of."""
    return made.contents([EXAMPLES], "torch", "onnx", "onnxscript")


def export(network: str, folder: Path = MODELS) -> Path:
    """Write the network as an ONNX model, unless it is there."""
    path = folder / f"{network}.onnx"
    script = [sys.executable, EXAMPLES / "networks.py", network, path]
    return made.file(path, digest(), lambda: subprocess.run(script, check=True, capture_output=True))


def seconds(arguments: list[object]) -> float:
    """Run a command; its processor time. Raises CalledProcessError."""
    text = ["bash", "-c", 'TIMEFORMAT="%U %S"; time "$@"', "-", *map(str, arguments)]
    result = subprocess.run(text, capture_output=True, text=True, check=True)
    return sum(map(float, result.stderr.strip().splitlines()[-1].split()))


def compulsory(listing: Path) -> int:
    """Bytes of weights (of tables, rows that are read), inputs and outputs, each once, as they are stored."""
    total = 0
    with listing.open() as lines:
        for line in lines:
            kind, _, text = line.partition(" {")
            if kind == "#! program":
                total += int(json.loads("{" + text).get("weight_bytes", 0))
            elif kind == "#! op" and '"rows_read"' in text:
                total -= unread(json.loads("{" + text))
            elif kind == "#! tensor":
                tensor = json.loads("{" + text)
                if tensor.get("role", "INPUT") in ("INPUT", "OUTPUT"):
                    elements = 1
                    for extent in tensor["shape"]:
                        elements *= int(extent)
                    total += elements * BITS.get(tensor["elem"], 32) // 8
    return total


def unread(operation: dict[str, Any]) -> int:
    """Return the bytes of rows of its table that a lookup does not read."""
    attributes = {each["name"]: each for each in operation["attribute"]}
    table = next(each for name, each in attributes.items() if name.startswith("weight "))
    rows, width = map(int, table["ints"])
    left = max(0, rows - int(attributes["rows_read"]["i"]))
    return left * width * BITS.get(table["s"].upper(), 32) // 8


def rest_of(stats: dict[str, Any]) -> str:
    """Return what the arrays spend most of their time on, beside useful work."""
    sums: dict[str, int] = {}
    for name, row in stats.items():
        parts = name.split(".")
        if len(parts) == 4 and parts[0] == "units" and "_nmu" in parts[1] and parts[2:] != ["busy", "useful"]:
            cause = f"{parts[2]}.{parts[3]}"
            sums[cause] = sums.get(cause, 0) + int(row["value"])
    arrays = len({name.split(".")[1] for name in stats if name.startswith("units.") and "_nmu" in name})
    if not arrays or not any(sums.values()):
        return ""
    cause = max(sums, key=lambda each: sums[each])
    return f"{cause} {sums[cause] / arrays / int(stats['cycles.total']['value']):.0%}"


def errors_of(operations: list[dict[str, str]], total: int) -> tuple[float, float]:
    """Predicted / simulated cycles of the network, and the median error of its larger operations."""
    pairs = [(float(row["estimated_cycles"] or 0), int(row["charged_cycles"])) for row in operations]
    large = [abs(guess / real - 1) for guess, real in pairs if guess > 0 and real > SHARE * total]
    return sum(guess for guess, _ in pairs) / total, statistics.median(large) if large else 0


def refusal(error: subprocess.CalledProcessError) -> str:
    """Return the first words of the reason, for a cell."""
    lines = [line for line in error.stderr.splitlines() if "error:" in line]
    reason = lines[0].split("error:", 1)[1] if lines else f"exit {error.returncode}"
    return reason.split(" Fix:")[0].replace("|", "/").strip()[:120]


def measure(kpusim: str, model: Path, case: Case) -> Measured:
    """Compile and run without values."""
    calibrate = ["--calibrate", "random:1"] if case.precision.startswith(("int", "fp8")) else []
    batch = ["--batch", case.batch]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        program, out = folder / "network.kpu", folder / "run"
        device = ["--platform", case.device]
        try:
            compiling = seconds(
                [
                    kpusim,
                    "compile",
                    model,
                    *device,
                    "--precision",
                    case.precision,
                    *calibrate,
                    *batch,
                    "-o",
                    program,
                ]
            )
            running = seconds([kpusim, "run", program, *device, "--mode", "timing", "--quiet", "-o", out])
        except subprocess.CalledProcessError as error:
            return Measured(["", "", "", "", "", "", "", "", "", "", "", refusal(error)], [], 0, 0)
        listing = folder / "network.nem"
        subprocess.run([kpusim, "disasm", program, "-o", listing], check=True, capture_output=True)
        least_bytes = compulsory(listing)
        stats = json.loads((out / "stats.json").read_text())["stats"]
        operations = list(csv.DictReader((out / "ops.csv").read_text().splitlines()))
    value = {name: row["value"] for name, row in stats.items()}
    total = int(value["cycles.total"])
    moved = value["bytes.dram.read"] + value["bytes.dram.write"]
    bandwidth = moved / (value["utilization.dram_bandwidth"] * total)
    at_peak = value["utilization.compute"] * total
    least = max(at_peak, least_bytes / bandwidth)
    predicted, median = errors_of(operations, total)
    spatial, temporal = value["utilization.array.spatial"], value["utilization.array.temporal"]
    cells = [
        f"{total:,}",
        f"{value['time.total_us'] / 1000:.3f}",
        f"{value['throughput.inferences_per_s']:,.1f}",
        f"{spatial:.1%} x {temporal:.1%} = {spatial * temporal:.1%}",
        f"{total / least:.2f}",
        f"{moved / least_bytes:.2f}",
        f"{value['energy.total_uj'] / case.batch:,.0f}",
        rest_of(stats),
        f"{predicted:.3f}",
        f"{median:.1%}",
        "",
        f"{compiling:.1f} + {running:.1f}",
    ]
    peak = value["ops.macs"] / at_peak if at_peak else 0
    return Measured(cells, operations, peak, bandwidth)


def draw(network: str, measured: Measured) -> None:
    """The roofline of a network: a point for each operation with products, its area the share of cycles."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "kpusim"
    mpl.rcParams["svg.fonttype"] = "none"  # letters, not their outlines
    from matplotlib import pyplot as plt

    rows = [row for row in measured.operations if int(row["macs"]) > 0 and int(row["charged_cycles"]) > 0]
    total = sum(int(row["charged_cycles"]) for row in measured.operations)
    across = [int(row["macs"]) / max(1, int(row["bytes_dram"])) for row in rows]
    up = [int(row["macs"]) / int(row["charged_cycles"]) for row in rows]
    sizes = [8 + 600 * int(row["charged_cycles"]) / total for row in rows]
    figure, axes = plt.subplots(figsize=(6.4, 4))
    low, high = min([*across, 0.1]), max([*across, 100.0])
    knee = measured.peak / measured.bandwidth
    axes.plot(
        [low, knee, max(high, knee)], [low * measured.bandwidth, measured.peak, measured.peak], "k-", lw=1
    )
    axes.scatter(across, up, s=sizes, alpha=0.5)
    axes.set(xscale="log", yscale="log", xlabel="MACs / DRAM byte", ylabel="MACs / cycle")
    axes.set_title(
        f"{network}, {ROOFLINE[1]} on {ROOFLINE[0]}: operations, area = share of the cycles", fontsize=9
    )
    ROOFLINES.mkdir(exist_ok=True)
    figure.savefig(
        ROOFLINES / f"{network}.svg", metadata={"Date": None, "Creator": None}, bbox_inches="tight"
    )
    plt.close(figure)


def decibels(kpusim: str, model: Path, case: Case, inputs: int) -> str:
    """Return the cell for accuracy: of a network in a precision."""
    from centred import centred

    try:
        return f"{centred(kpusim, model, case.network, case.device, case.precision, inputs):.1f}"
    except RuntimeError:
        return ""  # refused; the last cell says why


def known_rows() -> dict[Case, list[str]]:
    """Return the rows of the page."""
    rows: dict[Case, list[str]] = {}
    for line in PAGE.read_text().splitlines() if PAGE.exists() else []:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == len(HEAD.split("|")) and cells[3].isdigit():
            rows[Case(cells[0], cells[1], cells[2], int(cells[3]))] = cells[4:]
    return rows


def write(networks: list[str], rows: dict[Case, list[str]]) -> None:
    """The page: its introduction stays, the table and the pictures are made again."""
    text = PAGE.read_text().split("<!-- rows -->")[0] + "<!-- rows -->\n\n"
    text += f"| {HEAD} |\n" + "|---" * len(HEAD.split("|")) + "|\n"
    for case in cases(networks):
        if case in rows:
            text += f"| {' | '.join([*map(str, case), *rows[case]])} |\n"
    text += "\n"
    for network in networks:
        if (ROOFLINES / f"{network}.svg").exists():
            text += f"![roofline of {network}](rooflines/{network}.svg)\n"
    PAGE.write_text(text)


def main() -> int:
    """Measure, then write or compare."""
    from networks import NETWORKS

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("--models", type=Path, default=MODELS)
    parser.add_argument("--network", action="append", choices=list(NETWORKS))
    parser.add_argument("--inputs", type=int, default=64)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    asked = given.network or list(NETWORKS)
    rows, differing = known_rows(), 0
    with ThreadPoolExecutor(2) as pool:
        models = dict(zip(asked, pool.map(lambda name: export(name, given.models), asked), strict=True))
        todo = list(cases(asked))
        results = list(pool.map(lambda case: measure(given.kpusim, models[case.network], case), todo))
        first: dict[tuple[str, str], Case] = {}
        for case, result in zip(todo, results, strict=True):
            if result.operations:
                first.setdefault((case.network, case.precision), case)
        measured = list(first.values()) if given.inputs > 0 else []
        ratios = pool.map(
            lambda case: decibels(given.kpusim, models[case.network], case, given.inputs), measured
        )
        accuracy = dict(zip([(case.network, case.precision) for case in measured], ratios, strict=True))
        for case, result in zip(todo, results, strict=True):
            kept = rows.get(case, [""] * len(result.cells))[-2]
            if result.operations:
                result.cells[-2] = accuracy.get((case.network, case.precision), kept)
            print(*case, *result.cells, sep=" | ", flush=True)
            if given.check and rows.get(case, [])[:-1] != result.cells[:-1]:
                print("  differs from the page:", *rows.get(case, []), sep=" | ")
                differing += 1
            rows[case] = result.cells
            if not given.check and (case.device, case.precision) == ROOFLINE and result.operations:
                draw(case.network, result)
    if not given.check:
        write(list(NETWORKS), rows)
    if differing:
        print(
            f"{differing} rows differ. Fix: look why; if it is meant, leave --check out, which writes them."
        )
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
