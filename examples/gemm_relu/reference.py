"""Independent NumPy implementation of gemm_relu.nem."""

from __future__ import annotations

import numpy as np

ULPS = 0  # bit for bit


def inputs() -> dict[str, np.ndarray]:
    """Return a (256, 256) and B (256, 192) f16, bias (192,) f32."""
    rng = np.random.default_rng(3)
    return {
        "A": rng.normal(0, 1, (256, 256)).astype(np.float16),
        "B": rng.normal(0, 0.1, (256, 192)).astype(np.float16),
        "bias": rng.normal(0, 1, 192).astype(np.float32),
    }


def expected(data: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """k-ascending f32 sum from the bias on; f16 products are exact in f32, so this is an FMA a step."""
    a, b = data["A"].astype(np.float32), data["B"].astype(np.float32)
    acc = np.broadcast_to(data["bias"], (256, 192)).copy()
    for k in range(256):
        acc += a[:, k : k + 1] * b[k]
    return {"Y": np.maximum(acc.astype(np.float16), np.float16(0))}
