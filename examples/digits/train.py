"""Train and quantize the digits network; export its weights and the held-back images.

Needs NumPy and scikit-learn (for the data set only). Writes `data/*.npy` beside this file and prints the
quantization scales that `digits.nem` states. Deterministic for one NumPy version; the example uses the
exported files, so nobody has to train again.

Network (NHWC): conv 3x3 1->16, ReLU, maxpool 2x2, conv 3x3 16->32, ReLU, maxpool 2x2, gemm 128->10.
All scales are powers of two and all zero points are 0.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

HELD_BACK = 320
HERE = Path(__file__).parent


def im2col(x: np.ndarray) -> np.ndarray:
    """3x3 patches with padding 1: (n, h, w, c) -> (n, h, w, 9c), in the order kh, kw, c."""
    h, w = x.shape[1:3]
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    return np.concatenate([padded[:, i : i + h, j : j + w] for i in range(3) for j in range(3)], axis=3)


def col2im(d: np.ndarray, c: int) -> np.ndarray:
    """Transpose of im2col."""
    n, h, w, _ = d.shape
    out = np.zeros((n, h + 2, w + 2, c), d.dtype)
    for k in range(9):
        i, j = divmod(k, 3)
        out[:, i : i + h, j : j + w] += d[..., k * c : (k + 1) * c]
    return out[:, 1:-1, 1:-1]


def pool(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """2x2 max pooling and the mask of the winners."""
    n, h, w, c = x.shape
    blocks = x.reshape(n, h // 2, 2, w // 2, 2, c)
    y = blocks.max(axis=(2, 4))
    return y, blocks == y[:, :, None, :, None, :]


def train(x: np.ndarray, labels: np.ndarray, epochs: int = 60) -> dict[str, np.ndarray]:
    """Adam on softmax cross-entropy with shifted copies of the images."""
    rng = np.random.default_rng(1)
    p = {
        "w1": rng.normal(0, 0.4, (9, 16)),
        "b1": np.zeros(16),
        "w2": rng.normal(0, 0.12, (144, 32)),
        "b2": np.zeros(32),
        "w3": rng.normal(0, 0.12, (128, 10)),
        "b3": np.zeros(10),
    }
    m = {k: np.zeros_like(v) for k, v in p.items()}
    v = {k: np.zeros_like(v) for k, v in p.items()}
    step = 0
    for epoch in range(epochs):
        rate = 2e-3 if epoch < epochs * 2 // 3 else 4e-4
        order = rng.permutation(len(x))
        for batch in np.array_split(order, len(x) // 48):
            shift = rng.integers(-1, 2, 2)
            xb = np.roll(x[batch], shift, axis=(1, 2)) if epoch < epochs - 10 else x[batch]
            c1 = im2col(xb)
            z1 = c1 @ p["w1"] + p["b1"]
            a1, k1 = pool(np.maximum(z1, 0))
            c2 = im2col(a1)
            z2 = c2 @ p["w2"] + p["b2"]
            a2, k2 = pool(np.maximum(z2, 0))
            flat = a2.reshape(len(xb), -1)
            logits = flat @ p["w3"] + p["b3"]
            e = np.exp(logits - logits.max(1, keepdims=True))
            d = e / e.sum(1, keepdims=True)
            d[np.arange(len(xb)), labels[batch]] -= 1
            d /= len(xb)
            g = {"w3": flat.T @ d, "b3": d.sum(0)}
            d2 = (d @ p["w3"].T).reshape(a2.shape)
            d2 = (k2 * d2[:, :, None, :, None, :]).reshape(z2.shape) * (z2 > 0)
            g["w2"] = np.einsum("nhwi,nhwo->io", c2, d2)
            g["b2"] = d2.sum((0, 1, 2))
            d1 = col2im(d2 @ p["w2"].T, 16)
            d1 = (k1 * d1[:, :, None, :, None, :]).reshape(z1.shape) * (z1 > 0)
            g["w1"] = np.einsum("nhwi,nhwo->io", c1, d1)
            g["b1"] = d1.sum((0, 1, 2))
            step += 1
            for k, value in g.items():
                value = value + 1e-4 * p[k]
                m[k] = 0.9 * m[k] + 0.1 * value
                v[k] = 0.999 * v[k] + 0.001 * value**2
                p[k] -= rate * (m[k] / (1 - 0.9**step)) / (np.sqrt(v[k] / (1 - 0.999**step)) + 1e-8)
    return p


def power_of_two_scale(x: np.ndarray, quantile: float = 1.0) -> float:
    """Smallest power of two s with |x| <= 127 s (for the given quantile of |x|)."""
    return float(2.0 ** np.ceil(np.log2(np.quantile(np.abs(x), quantile) / 127)))


def main() -> None:
    """Train, quantize, export."""
    data = load_digits()
    rng = np.random.default_rng(7)
    order = rng.permutation(len(data.images))
    held, kept = order[:HELD_BACK], order[HELD_BACK:]
    scale_x = 1.0 / 8  # real value of a pixel 0..16: 0..2
    images = data.images[..., None].astype(np.float64)
    p = train(images[kept] * scale_x, data.target[kept])

    # Float activations on the training images give the scales.
    a0 = images[kept] * scale_x
    z1 = im2col(a0) @ p["w1"] + p["b1"]
    a1, _ = pool(np.maximum(z1, 0))
    z2 = im2col(a1) @ p["w2"] + p["b2"]
    a2, _ = pool(np.maximum(z2, 0))
    z3 = a2.reshape(len(a2), -1) @ p["w3"] + p["b3"]
    s = {"x": scale_x / 4}  # int8 input = 4 * pixel
    for name, tensor, quantile in (("a1", z1, 0.9995), ("a2", z2, 0.9995), ("y", z3, 0.9999)):
        s[name] = power_of_two_scale(tensor, quantile)
    for name in ("w1", "w2", "w3"):
        s[name] = power_of_two_scale(p[name], 0.999)

    out = HERE / "data"
    out.mkdir(exist_ok=True)

    def int8(x: np.ndarray, scale: float) -> np.ndarray:
        return np.clip(np.rint(x / scale), -128, 127).astype(np.int8)

    np.save(out / "images.npy", int8(images[held] * scale_x, s["x"]))
    np.save(out / "labels.npy", data.target[held].astype(np.uint8))
    shapes = {"w1": (3, 3, 1, 16), "w2": (3, 3, 16, 32), "w3": (128, 10)}
    for (name, shape), source in zip(shapes.items(), ("x", "a1", "a2"), strict=True):
        np.save(out / f"{name}.npy", int8(p[name], s[name]).reshape(shape))
        bias = p["b" + name[1]] / (s[source] * s[name])
        np.save(out / f"b{name[1]}.npy", np.rint(bias).astype(np.int32))
    for name, scale in s.items():
        print(f"scale of {name}: {scale!r}")


if __name__ == "__main__":
    main()
