"""A classifier of sequences."""

from __future__ import annotations

from torch import Tensor, nn


class SequenceClassifier(nn.Module):
    """Two layers of LSTM, and the classes at the end of the sequence."""

    def __init__(self, inputs: int, width: int, classes: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(inputs, width, num_layers=2, batch_first=True)
        self.classify = nn.Linear(width, classes)

    def forward(self, sequence: Tensor) -> Tensor:
        """Logits of sequences [batch, length, inputs]."""
        states, _ = self.lstm(sequence)
        return self.classify(states[:, -1])


def lstm(classes: int = 10) -> nn.Module:
    """Width 64."""
    return SequenceClassifier(32, 64, classes)
