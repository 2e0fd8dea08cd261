"""The page on texts of graphs is run as it is written; texts compile to the programs of their models.

usage: test_graph_text_docs.py --update    with KPUSIM: writes down what the page's commands print now
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/docs"))
import check_page  # noqa: E402

PAGE = ROOT / "docs/graph_text.md"
KPUSIM = Path(os.environ.get("KPUSIM", "build/release/bin/kpusim")).resolve()
DIGITS = ROOT / "examples/networks/digits_cnn.onnx"
PASSES = ("simplify", "layout", "global_pool", "quantize", "fit_tiles", "order")
DEVICES = (("tile32", "bf16"), ("npm_lite", "int8"))


class Page(check_page.Page):
    """A page whose numbers may differ, until they are written down anew."""

    def session(self, line: int, text: str, varying: bool) -> str:
        """Run the commands of a console block."""
        return super().session(line, text, varying and not self.update)


def checked(folder: Path, *, update: bool) -> tuple[str, Page]:
    """Return the page as it would be now, and what is wrong with it."""
    page = Page(KPUSIM, PAGE, folder, update)
    script = folder / "tools/kpusim-reduce"
    script.write_text(f"#!/bin/sh\nexec '{sys.executable}' -m kpusim.reduce.command \"$@\"\n")
    script.chmod(0o755)
    return page.run(), page


def test_page(tmp_path: Path) -> None:
    """Commands print what the page says, but for numbers."""
    _, page = checked(tmp_path, update=False)
    assert not page.failures, "\n".join(page.failures)
    assert page.commands >= 7
    assert not check_page.check_links(PAGE)


def compiled(source: Path, target: Path, *more: object) -> str:
    """Compile a network; what the command says."""
    words = ["compile", source, "-o", target, "--force", *more]
    result = subprocess.run(
        [KPUSIM, *map(str, words)], capture_output=True, text=True, check=False, timeout=100
    )
    assert result.returncode == 0, result.stderr
    return result.stderr


@pytest.mark.parametrize(("device", "precision"), DEVICES)
def test_programs_are_the_same(tmp_path: Path, device: str, precision: str) -> None:
    """The text after every pass compiles to the bytes of the model's own program."""
    options = ["--platform", device, "--precision", precision]
    options += ["--calibrate", "random:1"] if precision == "int8" else []
    compiled(DIGITS, tmp_path / "model.kpu", *options)
    wanted = (tmp_path / "model.kpu").read_bytes()
    for name in PASSES if precision == "int8" else (*PASSES[:3], "precision", *PASSES[4:]):
        text = tmp_path / f"{name}.txt"
        said = compiled(DIGITS, tmp_path / "same.kpu", *options, "--print-after", name, "--print-graph", text)
        assert "# after" not in said
        compiled(text, tmp_path / "text.kpu", *options)
        assert (tmp_path / "text.kpu").read_bytes() == wanted, name
        assert (tmp_path / "same.kpu").read_bytes() == wanted, name


def test_what_cannot_go_on(tmp_path: Path) -> None:
    """A graph in the middle of quantization, several graphs, and types chosen already are refused."""
    options = ["--platform", "npm_lite", "--precision", "int8", "--calibrate", "random:1", "-o", os.devnull]
    for more, said in (
        (
            ["--print-after", "precision", "--print-graph", "g.txt"],
            "half quantized. Fix: print it after quantize.",
        ),
        (["--print-after", "all", "--print-graph", "g.txt"], "writes one graph. Fix: say of which pass"),
        (["--print-graph", "g.txt"], "writes one graph. Fix: say of which pass"),
    ):
        words = [KPUSIM, "compile", DIGITS, *options, *more]
        result = subprocess.run(words, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=100)
        assert result.returncode == 1 and said in result.stderr, result.stderr
    assert not list(tmp_path.iterdir())
    text = tmp_path / "g.txt"
    compiled(DIGITS, tmp_path / "m.kpu", *options[:-2], "--print-after", "order", "--print-graph", text)
    words = [KPUSIM, "compile", text, *options, "--report-accuracy", tmp_path / "a.csv"]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert "--report-accuracy chooses types, which this graph has already. Fix: leave it out" in result.stderr


def test_times_of_passes(tmp_path: Path) -> None:
    """Each pass says how long it took; without constants a text has time alone."""
    said = compiled(DIGITS, tmp_path / "m.kpu", "--platform", "tile32", "--print-after", "all")
    heads = [line for line in said.splitlines() if line.startswith("# after ")]
    assert len(heads) == 15 and all(head.endswith(" ms)") for head in heads)
    last = tmp_path / "last.txt"
    last.write_text(said[said.index(heads[-1]) :].split("\n\n")[0])
    words = [KPUSIM, "run", last, "--platform", "tile32", "--mode", "timing"]
    result = subprocess.run(words, capture_output=True, text=True, check=False, timeout=100)
    assert result.returncode == 0 and " cycles at " in result.stdout, result.stderr
    assert "made-up numbers stand for" in result.stderr
    result = subprocess.run(
        [*words[:-2], "--fill", "zeros"], capture_output=True, text=True, check=False, timeout=100
    )
    assert result.returncode == 1 and "Fix: print the graph with --print-graph" in result.stderr


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        text, page = checked(Path(temporary), update="--update" in sys.argv)
        print("\n".join(page.failures))
        if "--update" in sys.argv and not page.failures:
            PAGE.write_text(text, encoding="utf-8")
