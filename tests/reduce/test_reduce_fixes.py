"""Each fix that errors of kpusim.reduce advise works: each case makes a mistake, and follows the fix."""

from __future__ import annotations

import contextlib
import functools
import io
from pathlib import Path

import onnx
import pytest
from conftest import failing, network
from fixes import Case, check_complete, manual, play
from kpusim.reduce import reduce
from kpusim.reduce.command import main
from kpusim.reduce.network import read_network

TEXT = "graph a\n  input x: %x f32[2]  host f32\n  %y = relu(%x)  f32[2]\n  output y: %y f32[2]  host f32\n"


def model(planted: str = "Elu") -> str:
    """Return a network with an operator."""
    onnx.save(network(1, 8, {4: planted}), "model.onnx")
    return "model.onnx"


def text(content: str) -> Path:
    """Return a text of a graph, or none."""
    Path("graph.txt").write_text(content)
    return Path("graph.txt")


def command(*words: str, code: int = 0) -> str:
    """Return what `kpusim reduce` prints."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        assert main([model(), *words]) == code, said.getvalue()
    return said.getvalue()


def there() -> str:
    """Return a file that is there already."""
    Path("there.onnx").touch()
    return "there.onnx"


def empty() -> Path:
    """Return a model without a node."""
    made = network(1, 1, {})
    del made.graph.node[:]
    onnx.save(made, "empty.onnx")
    return Path("empty.onnx")


ELU = ("--", *failing("Elu"))
MANUAL = functools.partial(manual, main, "COMMAND")
CASES = [
    Case("reduce/network.py", "{}: {}. Fix: give an ONNX model, or the text of a graph.",
         lambda: read_network(Path("none.onnx")),
         [lambda: read_network(Path(model())), lambda: read_network(text(TEXT))]),
    Case("reduce/onnx_network.py", "{}: {}. Fix: give an ONNX model, or the text of a graph.",
         lambda: read_network(text("none")), [lambda: read_network(Path(model()))]),
    Case("reduce/onnx_network.py", "there is no node in it. Fix: give an ONNX model, or the text of a graph.",
         lambda: read_network(empty()), [lambda: read_network(Path(model()))]),
    Case("reduce/text_network.py", "this is not a line of a graph. Fix: print it again.",
         lambda: read_network(text(TEXT + "more\n")), [lambda: read_network(text(TEXT))]),
    Case("reduce/reducing.py", "Fix: write {} where the path belongs.", lambda: reduce(model(), ["false"]),
         [lambda: reduce(model(), ["test", "!", "-e", "{}"])]),
    Case("reduce/reducing.py", "Fix: give a command that there is.",
         lambda: reduce(model(), ["./none", "{}"]), [lambda: reduce(model(), failing("Elu"))]),
    Case("reduce/reducing.py", "Fix: give one that does.", lambda: reduce(model(), ["true", "{}"]),
         [lambda: reduce(model(), failing("Elu"))]),
    Case("reduce/command.py", "{}. Fix: see `kpusim reduce --help`.", lambda: command(code=1), [MANUAL]),
    Case("reduce/command.py", "Fix: write it after --, with {} for the network.",
         lambda: command("-o", "a.onnx", code=1), [lambda: command("-o", "a.onnx", *ELU)]),
    Case("reduce/command.py", "{}: is there. Fix: `kpusim reduce --force`, or give another name.",
         lambda: command("-o", there(), *ELU, code=1),
         [lambda: command("-o", there(), "--force", *ELU), lambda: command("-o", "b.onnx", *ELU)]),
    Case("reduce/command.py", "{}: {}. Fix: give a name that can be written.",
         lambda: command("-o", "none/a.onnx", *ELU, code=1), [lambda: command("-o", "c.onnx", *ELU)]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """All can be."""
    check_complete("reduce/", CASES, {})
