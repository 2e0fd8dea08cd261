"""Independent NumPy implementation of conv_pool.nem."""

from __future__ import annotations

import numpy as np

ULPS = 0  # integers: exactly
FILTER_SCALES = np.array(
    [0.01, 0.012, 0.008, 0.02, 0.011, 0.013, 0.009, 0.015]
    + [0.007, 0.014, 0.016, 0.006, 0.01, 0.018, 0.012, 0.005]
)


def inputs() -> dict[str, np.ndarray]:
    """X (1, 34, 34, 8), F (3, 3, 8, 16) int8 and bias (16,) int32."""
    rng = np.random.default_rng(5)
    return {
        "X": rng.integers(-128, 128, (1, 34, 34, 8), dtype=np.int8),
        "F": rng.integers(-128, 128, (3, 3, 8, 16), dtype=np.int8),
        "bias": rng.integers(-20000, 20000, 16, dtype=np.int32),
    }


def expected(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """acc = sum (x - 3) f + bias; y = sat(round(acc * sx*sf/sy) - 5); then 2x2 maxima."""
    x = data["X"].astype(np.int32) - 3
    acc = np.zeros((1, 32, 32, 16), np.int32) + data["bias"]
    for i in range(3):
        for j in range(3):
            acc += x[:, i : i + 32, j : j + 32] @ data["F"][i, j].astype(np.int32)
    y = np.clip(np.rint(acc * (0.05 * FILTER_SCALES / 0.1)) - 5, -128, 127).astype(np.int8)
    return {"Y": y.reshape(1, 16, 2, 16, 2, 16).max(axis=(2, 4))}
