"""The kernels of this folder: what each runs on, what NumPy says of it, and a program that launches it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
NEM_TYPES = {"float32": "f32", "uint32": "u32", "int32": "i32", "uint8": "u8", "int8": "i8"}


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

    launch = f'launch = compute.async in {named(case.reads)} out {named(case.writes)} op="{name}"'
    if case.grid:
        launch += f" grid=[{', '.join(map(str, case.grid))}]"
    if case.args:
        launch += f" args=[{', '.join(map(str, case.args))}]"
    lines.append(f"{launch} deps=[{', '.join(tokens)}]")
    for key in case.writes:
        token = "launch"
        if key not in case.far:
            lines.append(f"o1_{key} = store.async(dst=r_{key}_L2, src=r_{key}_L1, deps=[launch])")
            token = f"o1_{key}"
        lines.append(f"o2_{key} = transfer.async(dst=r_{key}, src=r_{key}_L2, deps=[{token}])")
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


def _layer_norm(d: dict[str, np.ndarray]) -> np.ndarray:
    rows = d["x"].reshape(-1, 64).astype(np.float64)
    centred = rows - rows.mean(axis=1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-5)
    return (scaled * d["gain"] + d["bias"]).astype(np.float32).ravel()


def _attention(d: dict[str, np.ndarray]) -> np.ndarray:
    q, k, v = (d[name].reshape(-1, 16).astype(np.float64) for name in "qkv")
    scores = q @ k.T / 4
    power = np.exp(scores - scores.max(axis=1, keepdims=True))
    return (power / power.sum(axis=1, keepdims=True) @ v).astype(np.float32).ravel()


def _convolve(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    image, filters = x.reshape(4, 8, 8).astype(np.int32), w.reshape(8, 4, 3, 3).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(image, (3, 3), axis=(1, 2))
    return np.einsum("chwyx,ocyx->ohw", windows, filters).astype(np.int32).ravel()


def _resize(x: np.ndarray) -> np.ndarray:
    image = x.reshape(16, 16).astype(np.float64)
    at = np.clip((np.arange(32) + 0.5) / 2 - 0.5, 0, None)
    low = at.astype(int)
    high, part = np.minimum(low + 1, 15), at - low
    wide = image[:, low] * (1 - part) + image[:, high] * part
    return (wide[low] * (1 - part)[:, None] + wide[high] * part[:, None]).astype(np.float32).ravel()


def _boxes(rng: np.random.Generator) -> np.ndarray:
    corner, size = rng.uniform(0, 60, (64, 2)), rng.uniform(8, 30, (64, 2))
    return np.concatenate([corner, corner + size], axis=1).astype(np.float32).ravel()


def _nms(boxes: np.ndarray, limit: float) -> dict[str, np.ndarray]:
    rows = boxes.reshape(-1, 4)
    area = (rows[:, 2] - rows[:, 0]) * (rows[:, 3] - rows[:, 1])
    kept: list[int] = []
    for i, box in enumerate(rows):
        wide = np.minimum(box[2], rows[kept, 2]) - np.maximum(box[0], rows[kept, 0])
        high = np.minimum(box[3], rows[kept, 3]) - np.maximum(box[1], rows[kept, 1])
        common = np.clip(wide, 0, None) * np.clip(high, 0, None)
        if not np.any(common > np.float32(limit) * (area[i] + area[kept] - common)):
            kept.append(i)
    out = np.full(64, -1, np.int32)
    out[: len(kept)] = kept
    return {"kept": out, "count": np.array([len(kept)], np.uint32)}


def _top_k(x: np.ndarray, k: int) -> dict[str, np.ndarray]:
    rows = x.reshape(-1, 64)
    order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
    return {
        "values": np.take_along_axis(rows, order, axis=1).ravel(),
        "indices": order.astype(np.uint32).ravel(),
    }


def _scatter(d: dict[str, np.ndarray]) -> np.ndarray:
    y = d["y"].copy()
    y[d["index"]] = d["update"]
    return y


def _fft(d: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    numbers = np.fft.fft((d["real"] + 1j * d["imaginary"].astype(np.float64)).reshape(-1, 64), axis=1)
    return {
        "result": numbers.real.astype(np.float32).ravel(),
        "result_imaginary": numbers.imag.astype(np.float32).ravel(),
    }


def _network_cases(rng: np.random.Generator) -> dict[str, Case]:
    def normal(count: int) -> np.ndarray:
        return rng.normal(0, 1, count).astype(np.float32)

    def small(count: int) -> np.ndarray:
        return rng.integers(-128, 128, count).astype(np.int8)

    def zeros(count: int, kind: type = np.float32) -> np.ndarray:
        return np.zeros(count, kind)

    file = "networks.kern"
    return {
        "layer_norm": Case(
            file,
            {"x": normal(512), "gain": normal(64), "bias": normal(64)},
            {"result": zeros(512)},
            lambda d: {"result": _layer_norm(d)},
            (8,),
            tolerance=1e-6,
        ),
        "flash_attention": Case(
            file,
            {"q": normal(1024), "k": normal(1536), "v": normal(1536)},
            {"result": zeros(1024)},
            lambda d: {"result": _attention(d)},
            (2,),
            (3,),
            2e-6,
        ),
        "conv_int8": Case(
            file,
            {"x": small(256), "w": small(288)},
            {"result": zeros(288, np.int32)},
            lambda d: {"result": _convolve(d["x"], d["w"])},
            (1, 1, 8),
            (4, 8),
        ),
        "resize": Case(
            file,
            {"x": normal(256)},
            {"result": zeros(1024)},
            lambda d: {"result": _resize(d["x"])},
            (2, 8),
            (16, 16),
            1e-6,
        ),
        "nms": Case(
            file,
            {"boxes": _boxes(rng), "limit": np.array([0.3], np.float32)},
            {"kept": zeros(64, np.int32), "count": zeros(1, np.uint32)},
            lambda d: _nms(d["boxes"], 0.3),
            (1,),
        ),
    }


def _order_cases(rng: np.random.Generator) -> dict[str, Case]:
    file = "orders.kern"
    numbers = rng.integers(0, 2**16, 256).astype(np.uint32)
    x = rng.normal(0, 1, 512).astype(np.float32)
    signal = rng.normal(0, 1, (2, 256)).astype(np.float32)
    places = rng.permutation(300)[:100].astype(np.uint32)
    return {
        "radix_sort": Case(
            file,
            {"x": numbers},
            {"result": np.zeros(256, np.uint32)},
            lambda d: {"result": np.sort(d["x"])},
            (1,),
            (16,),
        ),
        "top_k": Case(
            file,
            {"x": x},
            {"values": np.zeros(40, np.float32), "indices": np.zeros(40, np.uint32)},
            lambda d: _top_k(d["x"], 5),
            (8,),
            (5,),
        ),
        "scatter": Case(
            file,
            {"index": places, "update": x[:100], "y": x[200:500]},
            {"y": np.zeros(300, np.float32)},
            lambda d: {"y": _scatter(d)},
        ),
        "fft": Case(
            file,
            {"real": signal[0], "imaginary": signal[1]},
            {"result": np.zeros(256, np.float32), "result_imaginary": np.zeros(256, np.float32)},
            _fft,
            (4,),
            tolerance=2e-6,
        ),
    }


def cases() -> dict[str, Case]:
    """Return every kernel of the folder by its name."""
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
        **_network_cases(rng),
        **_order_cases(rng),
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
            {"x": mixed},
            {"result": like(mixed), "count": np.zeros(1, np.uint32)},
            lambda d: _compact(d["x"], 7),
            (1,),
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
        "dot_products": Case(
            "copies.kern",
            {"a": square[:512], "b": other[:512]},
            {"result": like(square, 32)},
            lambda d: {
                "result": (d["a"].reshape(16, 32).astype(np.float64) * d["b"].reshape(16, 32))
                .sum(axis=0)
                .astype(f32)
            },
            (1,),
            (16,),
            1e-6,
            ("a", "b"),
        ),
        "stream": Case(
            "copies.kern",
            {"x": words},
            {"result": like(words)},
            lambda d: {"result": d["x"] * np.uint32(3)},
            (1,),
            (16,),
            far=("x", "result"),
        ),
        "pipeline": Case(
            "copies.kern",
            {"x": words},
            {"result": like(words)},
            lambda d: {"result": d["x"] * np.uint32(2)},
            (1,),
            (16,),
            far=("x",),
        ),
    }
