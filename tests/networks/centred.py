"""Distance of a compiled network from float32, end to end: signal to noise after subtracting the mean output.

usage: centred.py KPUSIM MODEL.onnx NETWORK DEVICE PRECISION [--inputs N] [--group-size N]

Outputs of random networks are alike whatever the input (a cosine of 0.97 between those of different inputs),
so what all outputs have in common is subtracted first, from what ONNX Runtime gives in float32 and from ours:
the rest tells inputs apart, and its error is what counts. int8, int4 and float8 are calibrated on 32 further
samples.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnxruntime
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples" / "networks"))
from networks import samples

BATCH = 8
CALIBRATED = 4  #: batches
Arrays = list[NDArray[np.generic]]


def batches(network: str, count: int, seed: int) -> list[Arrays]:
    """Return all inputs of a network, by batch."""
    return [[x.numpy() for x in samples(network, BATCH, seed + i)] for i in range(count)]


def in_float32(model: Path, given: list[Arrays]) -> tuple[list[str], dict[str, NDArray[np.float64]]]:
    """Return the names of the inputs, and what ONNX Runtime computes: floats of all batches, by output."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [port.name for port in session.get_inputs()]
    outputs = [port.name for port in session.get_outputs()]
    made = [session.run(None, dict(zip(names, batch, strict=True))) for batch in given]
    return names, {
        name: np.concatenate([np.asarray(batch[i], np.float64) for batch in made])
        for i, name in enumerate(outputs)
        if np.issubdtype(made[0][i].dtype, np.floating)
    }


def decibel(got: NDArray[np.float64], want: NDArray[np.float64]) -> float:
    """Signal to noise of what is left when each side's mean over the inputs is subtracted."""
    signal = want - want.mean(0)
    noise = (got - got.mean(0)) - signal
    return float(10 * np.log10(np.sum(signal**2) / max(float(np.sum(noise**2)), 1e-300)))


def save(folder: Path, names: list[str], batch: Arrays, number: int) -> None:
    """A sample, in the folders that --calibrate reads."""
    for name, array in zip(names, batch, strict=True):
        where = folder / name if len(names) > 1 else folder
        where.mkdir(parents=True, exist_ok=True)
        np.save(where / f"{number}.npy", array)


def centred(
    kpusim: str,
    model: Path,
    network: str,
    device: str,
    precision: str,
    inputs: int = 64,
    more: tuple[str, ...] = (),
) -> float:
    """The ratio in dB, of the worst output. Raises RuntimeError where the device refuses the network."""
    given = batches(network, -(-inputs // BATCH), 1000)
    names, want = in_float32(model, given)
    got: dict[str, list[NDArray[np.float64]]] = {name: [] for name in want}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        calibrate: list[str] = []
        if precision.startswith(("int", "fp8")):
            for number, batch in enumerate(batches(network, CALIBRATED, 2000)):
                save(folder / "samples", names, batch, number)
            calibrate = ["--calibrate", str(folder / "samples")]
        program, out = str(folder / "network.kpu"), folder / "out"
        command = [
            kpusim,
            "compile",
            str(model),
            "--platform",
            device,
            "--precision",
            precision,
            *calibrate,
            *more,
        ]
        command += ["--batch", str(BATCH), "-o", program]
        told = subprocess.run(command, capture_output=True, text=True, check=False)
        if told.returncode != 0:
            raise RuntimeError(told.stderr)
        for batch in given:
            feeds = []
            for port, array in zip(names, batch, strict=True):
                np.save(folder / f"{port}.npy", array)
                feeds += ["--input", f"{port}={folder / port}.npy"]
            run = [
                kpusim,
                "run",
                program,
                "--mode",
                "functional",
                "--quiet",
                "--force",
                "-o",
                str(out),
                *feeds,
            ]
            subprocess.run(run, check=True, capture_output=True, text=True)
            for port in got:
                got[port].append(np.asarray(np.load(out / "outputs" / f"{port}.npy"), np.float64))
    return min(decibel(np.concatenate(got[port])[:inputs], want[port][:inputs]) for port in want)


def main() -> None:
    """Print one ratio."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("kpusim")
    parser.add_argument("model", type=Path)
    parser.add_argument("network")
    parser.add_argument("device")
    parser.add_argument("precision")
    parser.add_argument("--inputs", type=int, default=64)
    parser.add_argument("--group-size", default="")
    given = parser.parse_args()
    more = ("--group-size", given.group_size) if given.group_size else ()
    ratio = centred(
        given.kpusim, given.model, given.network, given.device, given.precision, given.inputs, more
    )
    print(f"{ratio:.1f} dB")


if __name__ == "__main__":
    main()
