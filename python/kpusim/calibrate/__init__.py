"""Platforms that are fitted to measured times: :func:`calibrate`. docs/calibration.md is its page."""

from kpusim.calibrate.calibrating import Calibration, calibrate, check

__all__ = ["Calibration", "calibrate", "check"]
