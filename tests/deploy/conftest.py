"""Settings of these tests."""

import torch

torch.set_num_threads(1)  # tests run beside each other
