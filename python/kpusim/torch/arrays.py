"""Tensors of PyTorch as arrays of the host, and back."""

from __future__ import annotations

import numpy as np
import torch

from kpusim.base.arrays import Array


def to_array(value: torch.Tensor) -> Array:
    """Return a tensor as an array of the host; bf16 as its bits."""
    value = value.detach().cpu().contiguous()
    if value.dtype is torch.bfloat16:
        return np.asarray(value.view(torch.int16).numpy().view(np.uint16))
    return np.asarray(value.numpy())


def to_tensor(array: Array, kind: torch.dtype) -> torch.Tensor:
    """Return an array of the host as a tensor of this type."""
    array = np.asarray(array, order="C")
    if kind is torch.bfloat16 and array.dtype == np.uint16:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array).to(kind)
