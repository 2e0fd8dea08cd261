"""Independent NumPy implementation of digits.nem: exact int8 arithmetic of the same network."""

from __future__ import annotations

from pathlib import Path

import numpy as np

DATA = Path(__file__).parent / "data"
# (input scale, weight scale, output scale) of the three layers, as stated in digits.nem
SCALES = ((0.03125, 0.015625, 0.0625), (0.0625, 0.0078125, 0.0625), (0.0625, 0.0078125, 0.25))


def requantize(acc: np.ndarray, scales: tuple[float, float, float]) -> np.ndarray:
    """i32 accumulator to i8: round half to even, saturate."""
    x, w, y = scales
    return np.clip(np.rint(acc.astype(np.float64) * (x * w / y)), -128, 127).astype(np.int8)


def conv3x3(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """NHWC x HWIO convolution with padding 1 in int32."""
    n, h, width, _ = x.shape
    padded = np.pad(x.astype(np.int32), ((0, 0), (1, 1), (1, 1), (0, 0)))
    acc = np.zeros((n, h, width, w.shape[3]), np.int32) + b
    for i in range(3):
        for j in range(3):
            acc += padded[:, i : i + h, j : j + width] @ w[i, j].astype(np.int32)
    return acc


def relu_pool(x: np.ndarray) -> np.ndarray:
    """ReLU, then 2x2 max pooling."""
    n, h, w, c = x.shape
    return np.maximum(x, 0).reshape(n, h // 2, 2, w // 2, 2, c).max(axis=(2, 4))


def logits(images: np.ndarray) -> np.ndarray:
    """int8 logits (n, 10) of int8 images (n, 8, 8, 1)."""
    p = {name: np.load(DATA / f"{name}.npy") for name in ("w1", "b1", "w2", "b2", "w3", "b3")}
    a1 = relu_pool(requantize(conv3x3(images, p["w1"], p["b1"]), SCALES[0]))
    a2 = relu_pool(requantize(conv3x3(a1, p["w2"], p["b2"]), SCALES[1]))
    flat = a2.reshape(len(images), -1).astype(np.int32)
    return requantize(flat @ p["w3"].astype(np.int32) + p["b3"], SCALES[2])


ULPS = 0  # integers: exactly


def inputs() -> dict[str, np.ndarray]:
    """Host tensors of digits.nem by name."""
    return {name: np.load(DATA / f"{name}.npy") for name in ("images", "w1", "b1", "w2", "b2", "w3", "b3")}


def expected(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the logits of all images."""
    return {"logits": logits(data["images"])}


if __name__ == "__main__":
    labels = np.load(DATA / "labels.npy")
    result = logits(np.load(DATA / "images.npy"))
    print(f"accuracy {np.mean(result.argmax(1) == labels):.4f} on {len(labels)} held-back images")
