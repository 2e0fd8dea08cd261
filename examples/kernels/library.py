"""The kernels of this folder: what each runs on, what NumPy says of it, and a program that launches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
NEM_TYPES = {"float32": "f32", "uint32": "u32", "int32": "i32", "uint8": "u8"}


@dataclass
class Case:
    """One kernel: its buffers in order, and what its outputs hold afterwards."""

    file: str
    reads: dict[str, np.ndarray]
    writes: dict[str, np.ndarray]  # shape and type; of buffers that are read too, their values stand in reads
    expected: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    grid: tuple[int, ...] = ()
    args: tuple[int, ...] = ()
    tolerance: float = 0.0  # of the largest value
    far: tuple[str, ...] = field(default=())  # operands that stay in L2: the kernel copies them itself


def program(name: str, case: Case) -> str:
    """NEM text that brings the operands to L1, launches the kernel, and brings its outputs back."""
    operands = {**case.writes, **case.reads}
    lines = ['device "npm_lite.nem"', f"program {name}_program:", f"#! kernels {case.file}"]
    for key, array in operands.items():
        places = ("DDR", "L2") if key in case.far else ("DDR", "L2", "L1[0]")
        for place in places:
            where = place[:2] if place != "DDR" else "DDR"
            buffer = key if place == "DDR" else f"{key}_{where}"
            lines.append(f"buffer {buffer} : {place} (size = {array.nbytes}, align = 64)")
            lines.append(
                f"let r_{buffer} = region({buffer}, 0, {array.nbytes}) "
                f"elem={NEM_TYPES[str(array.dtype)]}, shape=[{array.size}], layout=N"
            )
    tokens = []
    for key in case.reads:
        lines.append(f"t1_{key} = transfer.async(dst=r_{key}_L2, src=r_{key})")
        tokens.append(f"t1_{key}")
        if key not in case.far:
            lines.append(f"t2_{key} = transfer.async(dst=r_{key}_L1, src=r_{key}_L2, deps=[t1_{key}])")
            tokens[-1] = f"t2_{key}"

    def named(keys: dict[str, np.ndarray]) -> str:
        return ", ".join(f"r_{key}_L2" if key in case.far else f"r_{key}_L1" for key in keys)

    launch = f'k = compute.async in {named(case.reads)} out {named(case.writes)} op="{name}"'
    if case.grid:
        launch += f" grid=[{', '.join(map(str, case.grid))}]"
    if case.args:
        launch += f" args=[{', '.join(map(str, case.args))}]"
    lines.append(f"{launch} deps=[{', '.join(tokens)}]")
    for key in case.writes:
        lines.append(f"o1_{key} = store.async(dst=r_{key}_L2, src=r_{key}_L1, deps=[k])")
        lines.append(f"o2_{key} = transfer.async(dst=r_{key}, src=r_{key}_L2, deps=[o1_{key}])")
    return "\n".join(lines) + "\n"


def _sparse(rng: np.random.Generator) -> dict[str, np.ndarray]:
    counts = rng.integers(0, 9, 96)
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.uint32)
    return {
        "start": start,
        "column": rng.integers(0, 80, start[-1]).astype(np.uint32),
        "value": rng.normal(0, 1, start[-1]).astype(np.float32),
        "x": rng.normal(0, 1, 80).astype(np.float32),
    }


def _box(x: np.ndarray) -> np.ndarray:
    wide = np.pad(x.reshape(16, 32), 1)
    total = sum(wide[dy : dy + 16, dx : dx + 32] for dy in range(3) for dx in range(3))
    return (total / 9).astype(np.float32).ravel()


def _softmax(x: np.ndarray) -> np.ndarray:
    rows = x.reshape(-1, 64).astype(np.float64)
    power = np.exp(rows - rows.max(axis=1, keepdims=True))
    return (power / power.sum(axis=1, keepdims=True)).astype(np.float32).ravel()


def _rope(x: np.ndarray, angle: np.ndarray) -> np.ndarray:
    pairs = x.reshape(-1, 32, 2).astype(np.float64)
    turn = angle.astype(np.float64) * np.arange(len(pairs))[:, None]
    even, odd = pairs[..., 0], pairs[..., 1]
    both = [even * np.cos(turn) - odd * np.sin(turn), even * np.sin(turn) + odd * np.cos(turn)]
    return np.stack(both, axis=-1).astype(np.float32).ravel()


def _spmv(d: dict[str, np.ndarray]) -> np.ndarray:
    products = d["value"].astype(np.float64) * d["x"][d["column"]]
    return np.array(
        [products[a:b].sum() for a, b in zip(d["start"], d["start"][1:], strict=False)], np.float32
    )


def _compact(x: np.ndarray, limit: int) -> dict[str, np.ndarray]:
    kept = x[x > limit]
    out = np.full(x.size, -1, np.int32)
    out[: kept.size] = kept
    return {"result": out, "count": np.array([kept.size], np.uint32)}


def _random(seed: np.ndarray, steps: int) -> np.ndarray:
    state = seed.copy()
    for _ in range(steps):
        for left, amount in ((True, 13), (False, 17), (True, 5)):
            state ^= state << np.uint32(amount) if left else state >> np.uint32(amount)
    return state


def cases() -> dict[str, Case]:
    """Every kernel of the folder by its name."""
    rng = np.random.default_rng(7)
    f32 = np.float32
    x = rng.normal(0, 1, 1000).astype(f32)
    y = rng.normal(0, 1, 1000).astype(f32)
    numbers = rng.integers(0, 1000, 512).astype(np.uint32)
    words = rng.integers(1, 2**32, 256).astype(np.uint32)
    square = rng.normal(0, 1, 64 * 64).astype(f32)
    other = rng.normal(0, 1, 64 * 64).astype(f32)
    image = rng.normal(0, 1, 16 * 32).astype(f32)
    letters = rng.integers(0, 256, 700).astype(np.uint8)
    mixed = rng.integers(-50, 50, 256).astype(np.int32)
    matrix = _sparse(rng)
    index = rng.integers(0, 1000, 128).astype(np.uint32)
    angle = (10.0 ** -(np.arange(32) / 16)).astype(f32)

    def like(array: np.ndarray, size: int | None = None) -> np.ndarray:
        return np.zeros(array.size if size is None else size, array.dtype)

    return {
        "saxpy": Case(
            "vectors.kern",
            {"x": x, "y": y, "a": np.array([2.5], f32)},
            {"y": like(y)},
            lambda d: {"y": (2.5 * d["x"].astype(np.float64) + d["y"]).astype(f32)},
        ),
        "reduce": Case(
            "vectors.kern",
            {"x": square},
            {"result": like(square, 64)},
            lambda d: {"result": d["x"].reshape(64, 64).astype(np.float64).sum(axis=1).astype(f32)},
            (64,),
            tolerance=1e-6,
        ),
        "scan": Case(
            "vectors.kern",
            {"x": numbers},
            {"result": like(numbers)},
            lambda d: {"result": np.cumsum(d["x"].reshape(-1, 64), axis=1, dtype=np.uint32).ravel()},
        ),
        "transpose": Case(
            "arrays.kern",
            {"x": square[:2048]},
            {"result": like(square, 2048)},
            lambda d: {"result": d["x"].reshape(32, 64).T.ravel()},
            (4, 2),
            (32, 64),
        ),
        "matmul": Case(
            "arrays.kern",
            {"a": square, "b": other},
            {"c": like(square)},
            lambda d: {
                "c": (d["a"].reshape(64, 64).astype(np.float64) @ d["b"].reshape(64, 64)).astype(f32).ravel()
            },
            (4, 4),
            (64,),
            1e-5,
        ),
        "box_filter": Case(
            "arrays.kern",
            {"x": image},
            {"result": like(image)},
            lambda d: {"result": _box(d["x"])},
            (2, 4),
            (32, 16),
            1e-6,
        ),
        "softmax": Case(
            "arrays.kern",
            {"x": square[:512]},
            {"result": like(square, 512)},
            lambda d: {"result": _softmax(d["x"])},
            tolerance=1e-6,
        ),
        "rope": Case(
            "arrays.kern",
            {"x": square[:512], "angle": angle},
            {"result": like(square, 512)},
            lambda d: {"result": _rope(d["x"], d["angle"])},
            (8,),
            tolerance=1e-6,
        ),
        "histogram": Case(
            "irregular.kern",
            {"x": letters, "bins": np.zeros(16, np.uint32)},
            {"bins": np.zeros(16, np.uint32)},
            lambda d: {"bins": np.bincount(d["x"] & 15, minlength=16).astype(np.uint32)},
        ),
        "spmv": Case(
            "irregular.kern",
            matrix,
            {"y": np.zeros(96, f32)},
            lambda d: {"y": _spmv(d)},
            tolerance=1e-6,
        ),
        "compact": Case(
            "irregular.kern",
            {"x": mixed, "count": np.zeros(1, np.uint32)},
            {"result": like(mixed), "count": np.zeros(1, np.uint32)},
            lambda d: _compact(d["x"], 7),
            (8,),
            (7,),
        ),
        "bitonic_sort": Case(
            "irregular.kern",
            {"x": words},
            {"result": like(words)},
            lambda d: {"result": np.sort(d["x"].reshape(-1, 64), axis=1).ravel()},
        ),
        "gather": Case(
            "irregular.kern",
            {"x": x, "index": index},
            {"result": np.zeros(128, f32)},
            lambda d: {"result": d["x"][d["index"]]},
        ),
        "random_numbers": Case(
            "irregular.kern",
            {"seed": words},
            {"result": like(words)},
            lambda d: {"result": _random(d["seed"], 8)},
            args=(8,),
        ),
        "pipeline": Case(
            "irregular.kern",
            {"x": words},
            {"result": like(words)},
            lambda d: {"result": d["x"] * np.uint32(2)},
            (1,),
            (16,),
            far=("x",),
        ),
    }
