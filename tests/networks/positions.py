"""One program for all positions beside programs for one: cycles and DRAM bytes of a decoder's layer.

usage: positions.py KPUSIM [--device NAME] [--size NAME] [--count N] [--seed N] [--bound SHARE]

The layer has GenAI's form (GroupQueryAttention, caches that past and present share) and random weights.
Positions are random, the first and the last one among them. Each is simulated by the program that was
compiled with --positions, and by one that was compiled for it, with its mask bound. Prints both, and exits
with 1 where the cycles differ by more than the bound.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import genai_layers
import numpy as np
import onnx

#: Layers, width, width inside, words, heads, groups, size of a head, rows of a cache.
SIZES = {
    "small": (2, 256, 688, 512, 8, 4, 32, 512),
    "llama-3.2-1b": (1, 2048, 8192, 64, 32, 8, 64, 8192),
}


def decoder(size: str) -> onnx.ModelProto:
    """Make a decoder of these sizes."""
    names = ("LAYERS", "HIDDEN", "INNER", "WORDS", "HEADS", "GROUPS", "SIZE", "MOST")
    for name, value in zip(names, SIZES[size], strict=True):
        setattr(genai_layers, name, value)
    return genai_layers.Builder(genai_layers.Family(turned=genai_layers.SIZE), False, 7).model()


class Programs:
    """Compiles and simulates."""

    def __init__(self, kpusim: str, folder: Path, device: str) -> None:
        self.kpusim, self.folder = kpusim, folder
        rows = genai_layers.MOST
        dims = [word for name in ("total", "past") for word in ("--dim", f"{name}={rows}")]
        self.options = ["--platform", device, "--precision", "fp16", "--dim", "rows=1", *dims]

    def command(self, *arguments: object) -> str:
        """Return its output; ends the script with its error."""
        done = subprocess.run(
            [self.kpusim, *map(str, arguments)], check=False, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
        return done.stdout

    def compiled(self, name: str, *options: object) -> Path:
        """Return a program of the model."""
        path = self.folder / name
        model = self.folder / "decoder.onnx"
        self.command("compile", model, *self.options, *options, "-o", path, "--force")
        return path

    def simulated(self, program: Path, *options: object) -> tuple[int, int]:
        """Return the cycles, and bytes that DRAM gives and takes."""
        text = self.command("run", program, "--mode", "timing", "--json", *options)
        stats = json.loads(text)["stats"]
        return stats["cycles.total"]["value"], sum(
            stats[f"bytes.dram.{way}"]["value"] for way in ("read", "write")
        )


def main() -> None:
    """Prints a line for each position; exit code 1 beyond the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--device", default="npm_pro")
    parser.add_argument("--size", choices=[*SIZES], default="llama-3.2-1b")
    parser.add_argument("--count", type=int, default=20, help="positions")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bound", type=float, default=0.03)
    options = parser.parse_args()
    model = decoder(options.size)
    rows = genai_layers.MOST
    drawn = np.random.default_rng(options.seed).integers(1, rows - 1, options.count - 2)
    worst, seconds = 0.0, 0.0
    with tempfile.TemporaryDirectory() as name:
        onnx.save(model, f"{name}/decoder.onnx")
        programs = Programs(options.kpusim, Path(name), options.device)
        follows = ["--positions", rows, "--bind", "attention_mask=upto(position)"]
        for_all = programs.compiled("all.kpu", *follows)
        for position in sorted({0, rows - 1, *map(int, drawn)}):
            begin = time.monotonic()
            cycles, moved = programs.simulated(for_all, "--param", f"position={position}")
            seconds += time.monotonic() - begin
            mask = Path(name) / "mask.npy"
            np.save(mask, (np.arange(rows) <= position).astype(np.int64)[None])
            own, own_moved = programs.simulated(
                programs.compiled("one.kpu", "--bind", f"attention_mask={mask}")
            )
            apart = cycles / own - 1
            worst = max(worst, abs(apart))
            print(
                f"{position:5}: {cycles:9,} cycles, alone {own:9,} ({apart:+.1%}); "
                f"DRAM {moved / own_moved - 1:+.1%}"
            )
    print(f"largest difference {worst:.1%}; {seconds / options.count:.2f} s a position")
    if worst > options.bound:
        sys.exit(1)


if __name__ == "__main__":
    main()
