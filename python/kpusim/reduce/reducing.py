"""Delta debugging of networks: what can be left out, so that a command still fails."""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from kpusim.errors import UserError
from kpusim.reduce.network import Network, read_network

PLACE = "{}"  #: in the words of a command: the path of the network
StrPath = str | os.PathLike[str]
Progress = Callable[[int, int], object]  #: is given nodes that are left, and runs so far


@dataclass
class Reduced:
    """Result of a reduction.

    Attributes
    ----------
    network : Network
        It.
    before, after : str
        Sizes.
    cuts : list of str
        What was left out beside nodes.
    runs : int
        Runs of the command.
    complete : bool
        False: the time was over, and less may do.
    """

    network: Network
    before: str
    after: str
    cuts: list[str] = field(default_factory=list)
    runs: int = 0
    complete: bool = True


class _TimeOverError(Exception):
    """The time that was given is over."""


class Judge:
    """Runs the command on candidates, each of them once."""

    def __init__(
        self, command: Sequence[str], folder: Path, match: str | None, run_time: float, ends: float | None
    ) -> None:
        self.runs = 0
        self._command, self._folder, self._match = command, folder, match
        self._run_time, self._ends = run_time, ends
        self._known: dict[bytes, bool] = {}

    def fails(self, network: Network | None) -> bool:
        """Return whether the command fails on it, as wanted."""
        if network is None:
            return False
        key = hashlib.sha256(network.content()).digest()
        if key not in self._known:
            if self._ends is not None and time.monotonic() > self._ends:
                raise _TimeOverError
            self._known[key] = self._run(network)
        return self._known[key]

    def _run(self, network: Network) -> bool:
        self.runs += 1
        path = self._folder / f"candidate{network.suffix}"
        network.write(path)
        words = [word.replace(PLACE, os.fspath(path)) for word in self._command]
        try:
            result = subprocess.run(
                words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                timeout=self._run_time, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return False
        except OSError as error:
            raise UserError(f"{words[0]}: {error.strerror}. Fix: give a command that there is.") from None
        return result.returncode != 0 and (self._match is None or self._match.encode() in result.stdout)


def reduce(
    model: StrPath, command: Sequence[str], *, match: str | None = None, time_limit: float | None = None,
    run_time: float = 60.0, progress: Progress | None = None,
) -> Reduced:  # fmt: skip
    """Cut a network down to the least on which a command still fails.

    Parameters
    ----------
    model : path
        An ONNX model, or the text of a graph.
    command : sequence of str
        Its words; ``{}`` in them is the path of a candidate. It fails by another exit code than 0.
    match : str, optional
        What the command must print to fail in the way that is looked for.
    time_limit : float, optional
        Seconds after which the least so far is given.
    run_time : float
        Seconds of one run, after which it counts as one that does not fail.
    progress : callable, optional
        Is given the nodes that are left, and the runs so far.

    Raises
    ------
    UserError
        For a command that does not fail on the network as it is.
    """
    if not any(PLACE in word for word in command):
        raise UserError("the command does not name its network. Fix: write {} where the path belongs.")
    network = read_network(Path(model))
    before = network.summary()
    ends = None if time_limit is None else time.monotonic() + time_limit
    with tempfile.TemporaryDirectory(prefix="kpusim-reduce-") as folder:
        judge = Judge(command, Path(folder), match, run_time, ends)
        if not judge.fails(network):
            raise UserError(
                f"{model}: the command does not fail on it{'' if match is None else f' by `{match}`'}. "
                "Fix: give one that does."
            )
        found = Reduced(network, before, before)
        try:
            _cut(found, judge, progress)
        except _TimeOverError:
            found.complete = False
        found.runs = judge.runs
    found.after = found.network.summary()
    return found


def _cut(found: Reduced, judge: Judge, progress: Progress | None) -> None:
    """Nodes first, as they take the most with them; then the rest, and nodes again where that went."""
    while True:
        _cut_nodes(found, judge, progress)
        if not _cut_rest(found, judge):
            return


def _cut_nodes(found: Reduced, judge: Judge, progress: Progress | None) -> None:
    """Zeller's delta debugging: parts alone, then all but a part, in ever smaller parts."""
    parts = 2
    while found.network.size > 1:
        size = found.network.size
        bounds = [size * i // parts for i in range(parts + 1)]
        chunks = [range(a, b) for a, b in pairwise(bounds) if b > a]
        alone = [list(chunk) for chunk in chunks]
        others = [[i for i in range(size) if i not in chunk] for chunk in chunks] if len(chunks) > 2 else []
        for nodes in [*alone, *others]:
            candidate = found.network.kept(nodes)
            if judge.fails(candidate):
                assert candidate is not None
                parts = 2 if len(nodes) <= size // 2 else max(2, parts - 1)
                found.network = candidate
                break
        else:
            if parts >= size:
                return
            parts = min(size, 2 * parts)
        if progress is not None:
            progress(found.network.size, judge.runs)


def _cut_rest(found: Reduced, judge: Judge) -> bool:
    """Outputs, attributes, sizes, one by one; whether any of them went."""
    any_went, went = False, True
    while went:
        went = False
        for what, candidate in found.network.smaller():
            if judge.fails(candidate):
                found.network, went, any_went = candidate, True, True
                found.cuts.append(what)
                break
    return any_went
