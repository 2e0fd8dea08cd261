"""A network to be cut, with nodes that can be left out one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from kpusim.errors import UserError
from kpusim.reduce.onnx_network import OnnxNetwork
from kpusim.reduce.text_network import TextNetwork


class Network(Protocol):
    """A network. None of the methods changes it."""

    suffix: str  #: of its files
    size: int  #: nodes

    def kept(self, nodes: Sequence[int]) -> Network | None:
        """The same with these nodes alone; what they read of others is an input. None: not possible."""

    def smaller(self) -> Iterator[tuple[str, Network]]:
        """The same with one thing less, and what that is, the most promising first."""

    def content(self) -> bytes:
        """Return what decides whether it fails."""

    def write(self, path: Path) -> None:
        """Write it, and what belongs beside it."""

    def summary(self) -> str:
        """Describe its sizes in words."""


def read_network(path: Path) -> Network:
    """Read an ONNX model, or a graph as the compiler prints it.

    Raises
    ------
    UserError
        For what is neither.
    """
    try:
        head = path.read_bytes()[:4096]
    except OSError as error:
        raise UserError(
            f"{path}: {error.strerror}. Fix: give an ONNX model, or the text of a graph."
        ) from None
    lines = [line for line in head.splitlines() if line.strip() and not line.startswith(b"#")]
    if lines and lines[0].startswith(b"graph "):
        return TextNetwork.load(path)
    return OnnxNetwork.load(path)
