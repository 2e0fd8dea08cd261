"""Settings of these tests."""

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # fixes.py

torch.set_num_threads(1)  # tests run beside each other
