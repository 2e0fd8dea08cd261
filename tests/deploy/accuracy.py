"""Distance of compiled networks from PyTorch: the table of docs/accuracy_precisions.md.

usage: accuracy.py [--update] [--growth] [NAME | NAME:PRECISION ...]; rows that are not named stay as they are

Random weights, batch-norm statistics calibrated (examples/networks); the digits network is the trained one.
Outputs are divided by the range of what PyTorch gives in float32, so that they have unit range. Where a bound
is asked for, the compiler may make 10 % of the multiply-accumulates wider, as it thinks best.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import kpusim
import kpusim.torch
import numpy as np
import numpy.typing as npt
import onnx
import onnx.reference
import torch

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "accuracy_precisions.md"
NETWORKS = ROOT / "examples" / "networks"
sys.path.insert(0, str(NETWORKS))
from networks import build, sample

SAMPLES, CALIBRATION = 6, 6
BEGIN, END = "<!-- accuracy: written by tests/deploy/accuracy.py --update -->", "<!-- accuracy: end -->"
Values = npt.NDArray[np.float64]


class Row(NamedTuple):
    """A network in a precision, and the bound that is asked for."""

    network: str
    precision: str
    bound: float | None


ROWS = (
    Row("resnet18", "fp16", 0.001),
    Row("resnet18", "int8", 0.01),
    Row("resnet18", "fp8", None),
    Row("resnet18", "fp8_e5m2", None),
    Row("yolov8n", "fp16", 0.001),
    Row("yolov8n", "int8", 0.02),
    Row("mobilenet_v2", "fp16", None),
    Row("mobilenet_v2", "int8", 0.01),
    Row("mobilenet_v2", "fp8", None),
    Row("digits_cnn", "fp16", None),
    Row("digits_cnn", "int8", None),
    Row("digits_cnn", "fp8", None),
    Row("digits_cnn", "fp8_e5m2", None),
    Row("digits_cnn", "bf16", None),
    Row("digits_cnn", "posit16", None),
    Row("digits_cnn", "posit8", None),
    *(Row("vit_tiny", name, None) for name in ("fp16", "int8", "fp8")),
    *(Row("vit_tiny", name, None) for name in ("mxint8", "mxfp8", "mxfp6", "nvfp4", "mxfp4")),
)
#: swkpu-v1 has not all types
DEVICES = dict.fromkeys(("bf16", "posit8", "posit16"), "swkpu-v2") | dict.fromkeys(
    ("fp8", "fp8_e5m2"), "core128-fp8"
)
DEVICES |= dict.fromkeys(("mxint8", "mxfp8", "mxfp6", "nvfp4", "mxfp4"), "core128-mx")
CALIBRATED = ("int8", "fp8", "fp8_e5m2")


class Result(NamedTuple):
    """Errors over all samples."""

    largest: float
    relative: float
    cosine: float
    same_top1: float
    pytorch: float  #: the largest error of PyTorch's own run in fp16; NaN where there is none
    mix: str = "one type"  #: share of multiply-accumulates that are wider, and the layer that adds most error


def compare(got: Values, want: Values, pytorch: float) -> Result:
    """Errors of outputs [samples, ...]."""
    rows, wanted = got.reshape(len(got), -1), want.reshape(len(want), -1)
    spread = float(np.ptp(wanted))
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(wanted, axis=1)
    return Result(
        float(np.abs(rows - wanted).max()) / spread,
        float(np.linalg.norm(rows - wanted) / np.linalg.norm(wanted)),
        float(((rows * wanted).sum(1) / lengths).min()),
        float((top(got) == top(want)).mean()),
        pytorch,
    )


def top(values: Values) -> npt.NDArray[np.int64]:
    """Return the likeliest class: of detections [samples, 4 + classes, boxes] that of each box."""
    return values[:, 4:].argmax(1) if values.ndim == 3 else values.argmax(1)


def torch_network(row: Row) -> Result:
    """Return a network of examples/networks through torch.compile."""
    torch._dynamo.reset()
    model = build(row.network)
    inputs = [sample(row.network, seed=100 + i) for i in range(SAMPLES)]
    options: dict[str, object] = {"precision": row.precision, "mode": "functional"}
    options["platform"] = DEVICES.get(row.precision, "swkpu-v1")
    if row.precision in CALIBRATED:
        options["calibration"] = [sample(row.network, seed=200 + i) for i in range(CALIBRATION)]
    report = Path(tempfile.mkdtemp(prefix="kpusim_accuracy_")) / "errors.csv"
    if row.bound is not None:
        options |= {"accuracy": "best", "report_accuracy": report}
        options["calibration"] = [sample(row.network, seed=200 + i) for i in range(CALIBRATION)]
    fast = torch.compile(model, backend="kpusim", options=options)
    with torch.no_grad():
        want = np.stack([model(x)[0].double().numpy() for x in inputs])
        got = np.stack([fast(x)[0].double().numpy() for x in inputs])
        theirs = np.nan
        if row.precision == "fp16":
            half = build(row.network).half()
            eager = np.stack([half(x.half())[0].double().numpy() for x in inputs])
            theirs = compare(eager, want, np.nan).largest
    return compare(got, want, theirs)._replace(mix=mix_of(report) if report.exists() else "one type")


def mix_of(report: Path) -> str:
    """Return what the compiler made wider, and what is worst of the rest: "7.6 %; conv2: 35.8 dB"."""
    layers = list(csv.DictReader(report.read_text(encoding="utf-8").splitlines()))
    narrow = next(name for name in layers[0] if name.startswith("snr_"))
    kind = narrow.split("_")[1]
    wide = sum(int(row["macs"]) for row in layers if row["precision"] != kind)
    total = sum(int(row["macs"]) for row in layers)
    left = [row for row in layers if row["precision"] == kind and row[narrow] not in ("exact", "none")]
    worst = min(left, key=lambda row: float(row[narrow]))
    return f"{100 * wide / total:.1f} %; `{worst['layer']}`: {worst[narrow]} dB"


def digits(row: Row) -> Result:
    """Return the trained network, all held-back images, against ONNX's reference."""
    images = np.load(NETWORKS / "images.npy")
    model = onnx.load(NETWORKS / "digits_cnn.onnx")
    (want,) = onnx.reference.ReferenceEvaluator(model).run(None, {"image": images})
    options = {"calibrate": NETWORKS / "calibration"} if row.precision in CALIBRATED else {}
    program = kpusim.compile(
        NETWORKS / "digits_cnn.onnx",
        DEVICES.get(row.precision, "swkpu-v1"),
        row.precision,
        dims={"batch": len(images)},
        **options,
    )
    run = kpusim.simulate(program, inputs={"image": images}, mode="functional")
    return compare(run.outputs["logits"].astype(np.float64), want.astype(np.float64), np.nan)


def line(row: Row, result: Result) -> str:
    """Return a row of the table."""
    bound = "" if row.bound is None else f"{row.bound:g}"
    held = "" if row.bound is None else "yes" if result.largest < row.bound else "**no**"
    theirs = "" if np.isnan(result.pytorch) else f"{result.pytorch:.1e}"
    return (
        f"| {row.network} | {row.precision} | {result.largest:.1e} | {bound} | {held} | {theirs} | "
        f"{result.relative:.1e} | {result.cosine:.6f} | {result.same_top1 * 100:.1f} % | {result.mix} |"
    )


def growth(name: str) -> float:
    """Return how much more a small disturbance of the input is, against the spread, at the worst product."""
    model, seen = build(name), list[Values]()
    for part in model.modules():
        if isinstance(part, torch.nn.Conv2d | torch.nn.Linear):
            part.register_forward_hook(lambda *call: seen.append(call[2].double().numpy()))
    x, size = sample(name, seed=100), 1e-4
    with torch.no_grad():
        model(x)
        model(x + size * torch.randn(x.shape, generator=torch.Generator().manual_seed(1)))
    pairs = zip(seen[: len(seen) // 2], seen[len(seen) // 2 :], strict=True)
    return max(float(np.sqrt(((b - a) ** 2).mean()) / a.std()) / size for a, b in pairs)


def main() -> None:
    """Measure, print, and update the page if asked."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--growth", action="store_true", help="of a disturbance of the input, instead")
    given = parser.parse_args()
    if given.growth:
        for name in dict.fromkeys(row.network for row in ROWS if row.network != "digits_cnn"):
            print(f"{name}: a disturbance grows {growth(name):.1f}-fold")
        return
    measure: dict[bool, Callable[[Row], Result]] = {True: digits, False: torch_network}
    lines = [
        "| network | precision | largest error | asked for | held | PyTorch in fp16 | relative error | "
        "smallest cosine | same top-1 | wider MACs; worst layer left |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print(*lines, sep="\n")
    text = PAGE.read_text(encoding="utf-8")
    for row in ROWS:
        if given.names and not {row.network, f"{row.network}:{row.precision}"} & set(given.names):
            lines += [
                old for old in text.splitlines() if old.startswith(f"| {row.network} | {row.precision} | ")
            ][:1]
            continue
        lines.append(line(row, measure[row.network == "digits_cnn"](row)))
        print(lines[-1], flush=True)
    if given.update:
        before, after = text[: text.index(BEGIN)], text[text.index(END) :]
        PAGE.write_text(before + "\n".join([BEGIN, "", *lines, "", after]), encoding="utf-8")


if __name__ == "__main__":
    main()
