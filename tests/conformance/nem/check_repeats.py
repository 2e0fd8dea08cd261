"""Operands that repeat (stride 0) against NumPy's broadcasting.

usage: check_repeats.py KPUSIM

Each round is one program of random element-wise tasks and reductions whose inputs repeat along random
dimensions. It runs with both arithmetic engines, functional and with timing; every result must be NumPy's,
element by element. Values are small whole numbers: every sum and product is exact in every type.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

ROUNDS, TASKS = 6, 24
TYPES = {"i8": np.int8, "i16": np.int16, "i32": np.int32, "f32": np.float32}
STORED = TYPES | {"u8": np.uint8}
BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
    "less": np.less,
    "equal": np.equal,
    "prelu": lambda x, slope: np.where(x < 0, slope * x, x),
}
OTHERS = {"where": np.where, "not": np.logical_not, "cast": lambda x: x}
# Element types of operands and result where they are not all the data's, `T`.
SIGNATURES = {
    "less": ("T T", "u8"),
    "equal": ("T T", "u8"),
    "where": ("u8 T T", "T"),
    "not": ("u8", "u8"),
    "cast": ("T", "i32"),
}
REDUCTIONS = {"reduce_sum": np.sum, "reduce_max": np.max, "reduce_min": np.min}
RUNS = (
    ("--mode", "functional"),
    ("--mode", "functional", "--values", "reference"),
    ("--platform", "tile32"),
)


def numbers(values: list[int]) -> str:
    """Return a list as NEM text."""
    return "[" + ", ".join(map(str, values)) + "]"


class Round:
    """A program, its inputs, and NumPy's results."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.text: list[str] = []
        self.inputs: dict[str, np.ndarray] = {}
        self.expected: dict[str, np.ndarray] = {}
        for task in range(TASKS):
            self.add_task(task)

    def repeated(self, name: str, elem: str, shape: list[int], wide: bool) -> tuple[str, np.ndarray]:
        """Return a new input that is seen with this shape: the region's text, and its broadcast values."""
        stored = [1 if self.random.random() < 0.5 else size for size in shape]
        values = self.random.integers(-3, 4, stored).astype(STORED[elem])
        self.inputs[name] = values.reshape(-1) if wide else values.reshape(-1).view(np.uint8)
        strides = [
            0 if have == 1 else step // values.itemsize
            for have, step in zip(stored, values.strides, strict=True)
        ]
        self.text.append(f"buffer {name} : {'L2' if wide else 'DDR'} (size = {values.nbytes}, align = 64)")
        source = name
        if not wide:  # from DDR through L2, as bytes, which is what the input is then
            source = f"{name}_near"
            self.text.append(f"buffer {source} : L2 (size = {values.nbytes}, align = 64)")
            self.text.append(
                f"load_{name} = transfer.async(dst=region({source}, 0, {values.nbytes}), "
                f"src=region({name}, 0, {values.nbytes}))"
            )
        form = f"elem={elem}, shape={numbers(shape)}, strides={numbers(strides)}"
        region = f"region({source}, 0, {values.nbytes}) {form}"
        return region, np.broadcast_to(values, shape)

    def add_task(self, task: int) -> None:
        """One task of a random opcode, type and shape."""
        elem = str(self.random.choice(list(TYPES)))
        shape = [int(size) for size in self.random.integers(1, 7, self.random.integers(1, 5))]
        if self.random.random() < 0.7:
            table = BINARY | OTHERS
            op = str(self.random.choice(list(table)))
            kinds, made = SIGNATURES.get(op, ("T T", "T"))
            types = kinds.replace("T", elem).split()
            operands = [
                self.repeated(f"{side}{task}", kind, shape, bool(self.random.integers(2)))
                for side, kind in zip("abc", types, strict=False)
            ]
            result, attrs = table[op](*(values for _, values in operands)), ""
            elem = made.replace("T", elem)
        else:
            op = str(self.random.choice(list(REDUCTIONS)))
            count = int(self.random.integers(1, len(shape) + 1))
            axes = sorted(int(axis) for axis in self.random.choice(len(shape), count, replace=False))
            operands = [self.repeated(f"a{task}", elem, shape, bool(self.random.integers(2)))]
            attrs = f" axes={numbers(axes)} keepdims=true"
            result = REDUCTIONS[op](operands[0][1], axis=tuple(axes), keepdims=True)
        result = result.astype(STORED[elem])
        out = f"y{task}"
        self.expected[out] = result.reshape(-1)
        self.text.append(f"buffer {out} : L2 (size = {result.nbytes}, align = 64)")
        text = "\n".join(self.text)
        loads = [f"load_{side}{task}" for side in "abc" if f"buffer {side}{task} : DDR" in text]
        wait = f" deps=[{', '.join(loads)}]" if loads else ""
        form = f"elem={elem}, shape={numbers(list(result.shape))}, layout=D"
        target = f"region({out}, 0, {result.nbytes}) {form}"
        self.text.append(
            f"t{task} = {op}.async in {', '.join(region for region, _ in operands)} out {target}{attrs}{wait}"
        )


def main() -> int:
    """Compare every round."""
    kpusim = sys.argv[1]
    wrong = compared = 0
    for seed in range(ROUNDS):
        made = Round(seed)
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder) / "repeats.nem"
            buffers = [line for line in made.text if line.startswith("buffer")]
            tasks = [line for line in made.text if not line.startswith("buffer")]
            program.write_text("\n".join(["program repeats:", *buffers, *tasks]) + "\n")
            command = [kpusim, "run", str(program), "--quiet"]
            for name, values in made.inputs.items():
                np.save(Path(folder) / f"{name}.npy", values)
                command += ["--input", f"{name}={folder}/{name}.npy"]
            for number, options in enumerate(RUNS):
                out = Path(folder) / f"out{number}"
                done = subprocess.run(
                    [*command, *options, "-o", str(out)], capture_output=True, text=True, check=False
                )
                if done.returncode != 0:
                    print(f"round {seed}, {' '.join(options)}: exit {done.returncode}\n{done.stderr}")
                    return 1
                for name, expected in made.expected.items():
                    found = np.load(out / "outputs" / f"{name}.npy")
                    compared += 1
                    if not np.array_equal(found, expected):
                        print(f"round {seed}, {' '.join(options)}: {name} is {found}, NumPy has {expected}")
                        wrong += 1
    print(f"{compared} results compared, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
