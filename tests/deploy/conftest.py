"""Settings of these tests."""

import gc
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # fixes.py, pytest_parts.py
from pytest_parts import pytest_addoption, pytest_collection_modifyitems  # noqa: F401

torch.set_num_threads(1)  # tests run beside each other
gc.set_threshold(100_000, 50, 100)  # a fifth of an export goes into looking for garbage
