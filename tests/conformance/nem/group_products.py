"""Products with scales of groups, in NumPy: gemm.group and conv2d.group."""

from __future__ import annotations

import numpy as np
from arithmetic import Tensor


def group_product(attrs: dict, inputs: list[Tensor]) -> Tensor:
    """gemm.group, conv2d.group: integer sums of each group of channels, scaled and added in f32."""
    x, w, s = inputs[:3]
    step = x.quant.scales[0] if x.quant else 1.0
    left = x.data.astype(np.int64) - (x.quant.zeros[0] if x.quant else 0)
    right, size = w.data.astype(np.int64), attrs["group_size"]
    scales, zeros = (s.real()[0], s.real()[1]) if s.data.ndim == 3 else (s.real(), np.zeros(s.shape))
    if x.data.ndim == 4:  # a row of [taps, channels] for each output pixel; padding is 0 here
        kh, kw, cin, cout = w.shape
        pads, (sh, sw), (dh, dw) = attrs["pads"], attrs["strides"], attrs["dilations"]
        left = np.pad(left, ((0, 0), (pads[0], pads[2]), (pads[1], pads[3]), (0, 0)))
        height = (left.shape[1] - dh * (kh - 1) - 1) // sh + 1
        width = (left.shape[2] - dw * (kw - 1) - 1) // sw + 1
        taps = [
            left[:, i * dh : i * dh + sh * height : sh, j * dw : j * dw + sw * width : sw]
            for i in range(kh)
            for j in range(kw)
        ]
        left, right = np.stack(taps, -2), right.reshape(kh * kw, cin, cout)
    else:
        left, right = left[:, None, :], right[None]
    shape = (*left.shape[:-2], right.shape[-1])
    y = np.broadcast_to(inputs[3].data if len(inputs) > 3 else np.float32(0), shape).astype(np.float32)
    for g, scale in enumerate(scales):
        part = slice(g * size, (g + 1) * size)
        sums = np.einsum("...tc,tco->...o", left[..., part], right[:, part])
        steps = sums - left[..., part].sum((-2, -1))[..., None] * zeros[g]
        y = (y.astype(np.float64) + steps * (step * scale)).astype(np.float32)
    return Tensor("f32", y)
