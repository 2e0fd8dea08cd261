"""Platforms that are fitted to measured times: :func:`calibrate`. docs/calibration.md is its page."""

from kpusim.calibrate.calibrating import calibrate, check
from kpusim.calibrate.found import Calibration

__all__ = ["Calibration", "calibrate", "check"]
