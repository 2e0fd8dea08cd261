"""Options that mix precisions, as the compiler of networks takes them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Keep = Mapping[str, str] | str
Accuracy = float | Literal["best"]


@dataclass(frozen=True, kw_only=True)
class Mixing:
    """Operations that are wider than the others, and how ranges are calibrated.

    Attributes
    ----------
    keep : mapping of str to str, or str, optional
        Types of operations by name or pattern: ``{"conv1": "fp16"}``, or as ``--keep`` has it.
    accuracy : float or "best", optional
        Least signal to noise of the outputs on the samples, in dB: the compiler chooses what is wider.
    wide_share : float, optional
        Of the multiply-accumulates, in percent, that ``accuracy`` may make wider; 10 by default.
    calibration_method : str, optional
        ``minmax``, ``percentile``, ``mse`` or ``entropy``.
    report_accuracy : str or path, optional
        File for the error that each layer adds: columns if it ends in ``.csv``, else a page.
    """

    keep: Keep | None = None
    accuracy: Accuracy | None = None
    wide_share: float | None = None
    calibration_method: str | None = None
    report_accuracy: str | os.PathLike[str] | None = None

    @property
    def measures(self) -> bool:
        """Return whether errors are measured, which takes samples in every precision."""
        return self.accuracy is not None or self.report_accuracy is not None

    def options(self) -> dict[str, str]:
        """Return the options of the compiler."""
        keep = self.keep
        if isinstance(keep, Mapping):
            keep = ",".join(f"{name}={kind}" for name, kind in keep.items())
        values = {
            "keep": keep,
            "accuracy": self.accuracy,
            "wide_share": self.wide_share,
            "calibration_method": self.calibration_method,
            "report_accuracy": None if self.report_accuracy is None else os.fspath(self.report_accuracy),
        }
        return {name: str(value) for name, value in values.items() if value is not None}
