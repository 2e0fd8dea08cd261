"""Graphs of matrices, and the scheduler that makes tile schedules of them. Part of `kpusim.schedule`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from kpusim import _core
from kpusim.errors import UserError
from kpusim.schedule.files import GraphTensor, SchedOp, Schedule

_TensorRow = tuple[str, int, int, str, str, float]


class Graph:
    """MatMul, ReLU and Add on matrices, in an order in which each finds its inputs.

    Examples
    --------
    >>> from kpusim.schedule.engine import Graph, Scheduler, SchedulerConfig
    >>> graph = Graph()
    >>> x, w = graph.input("x", (128, 128)), graph.weight("w", (128, 64))
    >>> y = graph.relu(graph.matmul(x, w), "y", role="output")
    >>> ops, stats = Scheduler(SchedulerConfig(53248)).run_on_graph(graph)
    >>> stats.loads, stats.loads_without_reuse
    (24, 64)
    """

    def __init__(self, elem: str = "f32") -> None:
        self.elem = elem
        self._tensors: dict[str, GraphTensor] = {}
        self._nodes: list[tuple[str, list[str], str]] = []

    @property
    def tensors(self) -> Mapping[str, GraphTensor]:
        """Tensors by their name, in the order of their ids."""
        return MappingProxyType(self._tensors)

    @property
    def nodes(self) -> tuple[tuple[str, tuple[str, ...], str], ...]:
        """Kind, inputs and output of every node."""
        return tuple((kind, tuple(inputs), output) for kind, inputs, output in self._nodes)

    def input(
        self, name: str, shape: tuple[int, int], elem: str | None = None, scale: float = 0.0
    ) -> GraphTensor:
        """Add a tensor that the host gives."""
        return self._add(GraphTensor(name, shape, "input", elem or self.elem, scale))

    def weight(
        self, name: str, shape: tuple[int, int], elem: str | None = None, scale: float = 0.0
    ) -> GraphTensor:
        """Add a tensor that the host gives once."""
        return self._add(GraphTensor(name, shape, "weight", elem or self.elem, scale))

    def matmul(
        self,
        a: GraphTensor,
        b: GraphTensor,
        name: str | None = None,
        role: str = "intermediate",
        elem: str | None = None,
        scale: float = 0.0,
    ) -> GraphTensor:
        """Add ``a @ b``."""
        return self._node("MatMul", [a, b], (a.shape[0], b.shape[1]), name, role, elem, scale)

    def relu(
        self,
        x: GraphTensor,
        name: str | None = None,
        role: str = "intermediate",
        elem: str | None = None,
        scale: float = 0.0,
    ) -> GraphTensor:
        """Add ``maximum(x, 0)``; fused with what comes before where nothing else reads that."""
        return self._node("ReLU", [x], x.shape, name, role, elem, scale)

    def add(
        self,
        x: GraphTensor,
        y: GraphTensor,
        name: str | None = None,
        role: str = "intermediate",
        elem: str | None = None,
        scale: float = 0.0,
    ) -> GraphTensor:
        """Add ``x + y``; one of them must be a MatMul that nothing else reads."""
        return self._node("Add", [x, y], x.shape, name, role, elem, scale)

    def _node(
        self,
        kind: str,
        inputs: list[GraphTensor],
        shape: tuple[int, int],
        name: str | None,
        role: str,
        elem: str | None,
        scale: float,
    ) -> GraphTensor:
        output = GraphTensor(
            name or f"{kind.lower()}{len(self._nodes)}", shape, role, elem or self.elem, scale
        )
        self._add(output)
        self._nodes.append((kind, [tensor.name for tensor in inputs], output.name))
        return output

    def _rows(self) -> tuple[list[_TensorRow], list[tuple[str, list[str], str]]]:
        """Give tensors and nodes as the core takes them."""
        tensors = [(t.name, t.shape[0], t.shape[1], t.role, t.elem, t.scale) for t in self._tensors.values()]
        return tensors, self._nodes

    def _add(self, tensor: GraphTensor) -> GraphTensor:
        if tensor.name in self._tensors:
            raise UserError(f"tensor `{tensor.name}` is in the graph already. Fix: give another name.")
        self._tensors[tensor.name] = tensor
        return tensor


@dataclass(frozen=True)
class SchedulerConfig:
    """Resources that a schedule may use.

    Attributes
    ----------
    total_bytes : int
        Size of the arena; three tiles are the least.
    tile : int
        Rows and columns of a tile.
    elem : str
        Type of the operands.
    """

    total_bytes: int = 256 * 1024
    tile: int = 32
    elem: str = "f32"


@dataclass(frozen=True)
class SchedulerStats:
    """Counts of what the scheduler made of a graph.

    Attributes
    ----------
    loads, executes, stores : int
        Ops of each kind.
    loads_without_reuse : int
        Loads if no tile were used twice.
    peak_bytes : int
        End of the highest tile in the arena.
    """

    loads: int
    executes: int
    stores: int
    loads_without_reuse: int
    peak_bytes: int

    @property
    def loads_removed(self) -> float:
        """Share of the loads that reuse removed."""
        return 1 - self.loads / self.loads_without_reuse if self.loads_without_reuse else 0.0


class Scheduler:
    """Makes schedules of graphs: by blocks of sums; the tile is dropped whose next use is the latest."""

    def __init__(self, config: SchedulerConfig | None = None) -> None:
        self.config = config or SchedulerConfig()

    def run_on_graph(self, graph: Graph) -> tuple[list[SchedOp], SchedulerStats]:
        """Schedule a graph.

        Parameters
        ----------
        graph : Graph
            MatMul, ReLU and Add.

        Returns
        -------
        tuple
            The ops, which name their tensors, and what they amount to.

        Raises
        ------
        UserError
            For what no op of a schedule can do, and for an arena too small.
        """
        schedule, stats = self.schedule(graph)
        return schedule.ops, stats

    def schedule(self, graph: Graph) -> tuple[Schedule, SchedulerStats]:
        """Schedule a graph, with its tensors as header: for files and programs."""
        core, numbers = _core.schedule_graph(
            *graph._rows(), self.config.tile, self.config.elem, self.config.total_bytes
        )
        return Schedule(core), SchedulerStats(*numbers)


def _fused(graph: Graph, tile: int) -> list[tuple[list[int], int, int, int]]:
    return _core.fuse_nodes(*graph._rows(), tile, graph.elem)


class FusionPass:
    """Groups of nodes that become one set of ops. The scheduler fuses by itself: the graph stays as it is."""

    def run(self, graph: Graph) -> list[tuple[str, ...]]:
        """Look at a graph.

        Returns
        -------
        list of tuple of str
            The outputs of the nodes of each set, in order: the last one is stored, the others never are.

        Raises
        ------
        UserError
            For a graph that is wrong, and for what no op of a schedule can do.
        """
        return [tuple(graph.nodes[node][2] for node in nodes) for nodes, _, _, _ in _fused(graph, 32)]


@dataclass(frozen=True)
class _TilePass:
    """A pass that counts tiles of `tile` rows and columns."""

    tile: int = 32


class TilingPass(_TilePass):
    """Numbers of tiles that every tensor is cut into; what is left over is padded with zeros."""

    def run(self, graph: Graph) -> dict[str, tuple[int, int]]:
        """Give rows and columns of tiles of every tensor, by name."""
        return {
            name: (-(-tensor.shape[0] // self.tile), -(-tensor.shape[1] // self.tile))
            for name, tensor in graph.tensors.items()
        }


class LoweringPass(_TilePass):
    """The loops over tiles that each set of ops becomes."""

    def run(self, graph: Graph) -> dict[str, tuple[int, int, int]]:
        """Look at a graph.

        Returns
        -------
        dict
            For the tensor that a set of ops stores: tiles in m, n and k. It takes m * n * k EXECUTEs and
            m * n STOREs; k is 0 where nothing is multiplied.

        Raises
        ------
        UserError
            As `FusionPass.run`.
        """
        return {graph.nodes[nodes[-1]][2]: (m, n, k) for nodes, m, n, k in _fused(graph, self.tile)}
