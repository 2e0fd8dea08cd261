"""Independent NumPy implementation of gemm_rmsnorm.nem."""

from __future__ import annotations

import numpy as np

ULPS = 1  # of f16, against float64


def inputs() -> dict[str, np.ndarray]:
    """X (256, 128), W (128, 64) and scale (64,), f16."""
    rng = np.random.default_rng(4)
    return {
        "X": rng.normal(0, 1, (256, 128)).astype(np.float16),
        "W": rng.normal(0, 0.1, (128, 64)).astype(np.float16),
        "scale": rng.uniform(0.5, 1.5, 64).astype(np.float16),
    }


def expected(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """k-ascending f32 gemm rounded to f16, then the norm in float64."""
    x, w = data["X"].astype(np.float32), data["W"].astype(np.float32)
    acc = np.zeros((256, 64), np.float32)
    for k in range(128):
        acc += x[:, k : k + 1] * w[k]
    y = acc.astype(np.float16).astype(np.float64)
    norm = y / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 0.00001)
    return {"Y": (norm * data["scale"].astype(np.float64)).astype(np.float16)}
