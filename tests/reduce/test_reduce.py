"""Planted failures are cut out of large networks, again and again the same way."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from conftest import failing, network
from kpusim.reduce import reduce
from kpusim.reduce.command import main
from kpusim.reduce.text_network import TextNetwork

KPUSIM = os.environ.get("KPUSIM", "build/release/bin/kpusim")


def kinds_of(path: Path) -> list[str]:
    """Operators of a model that ONNX takes."""
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    return sorted(node.op_type for node in model.graph.node)


def stated(tmp_path: Path, seed: int, planted: dict[int, str], count: int = 120) -> Path:
    """Return a network in a file."""
    path = tmp_path / "model.onnx"
    onnx.save(network(seed, count, planted), path)
    return path


@pytest.mark.parametrize("place", [0, 57, 119])
def test_one_operator_remains(tmp_path: Path, place: int) -> None:
    """The one of 120 nodes that fails remains, wherever it stands; its sizes become 1."""
    found = reduce(stated(tmp_path, place, {place: "Elu"}), failing("Elu"))
    found.network.write(tmp_path / "least.onnx")
    assert kinds_of(tmp_path / "least.onnx") == ["Elu"]
    assert found.complete and found.before.startswith("120 nodes") and "size 8 to 1" in found.cuts
    assert found.runs < 60


def test_what_fails_together_remains(tmp_path: Path) -> None:
    """Three operators far from each other, which fail together only."""
    path = stated(tmp_path, 4, {9: "Elu", 64: "Selu", 111: "Ceil"})
    found = reduce(path, failing("Elu", "Selu", "Ceil"))
    found.network.write(tmp_path / "least.onnx")
    assert kinds_of(tmp_path / "least.onnx") == ["Ceil", "Elu", "Selu"]
    again = reduce(path, failing("Elu", "Selu", "Ceil"))
    assert again.network.content() == found.network.content() and again.runs == found.runs


def test_the_compiler_fails(tmp_path: Path) -> None:
    """An operator that the compiler refuses, in a network that it compiles otherwise."""
    path = stated(tmp_path, 8, {70: "Det"}, 100)
    model = onnx.load(path)
    model.graph.node[70].op_type, model.graph.node[70].domain = "Mystery", "of.mine"
    model.opset_import.append(onnx.helper.make_opsetid("of.mine", 1))
    onnx.save(model, path)
    compile_ = [KPUSIM, "compile", "{}", "--platform", "tile32", "-o", os.devnull]
    said = subprocess.run(
        [sys.executable, "-m", "kpusim.reduce.command", path, "-o", tmp_path / "least.onnx", "--match",
         "Mystery", "--", *compile_], capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr
    least = onnx.load(tmp_path / "least.onnx")
    assert [node.op_type for node in least.graph.node] == ["Mystery"]
    assert said.stdout.startswith("before: 100 nodes") and "after:  1 nodes" in said.stdout


def test_graph_texts_are_cut(tmp_path: Path) -> None:
    """The text of a network after a pass; what is left compiles, with the constants beside it."""
    path = stated(tmp_path, 3, {50: "HardSwish"}, 110)
    text = tmp_path / "graph.txt"
    words = [KPUSIM, "compile", path, "--platform", "tile32", "--precision", "f32", "-o", os.devnull]
    printed = subprocess.run(
        [*words, "--print-after", "fold_constants", "--print-graph", text],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert printed.returncode == 0, printed.stderr
    whole = TextNetwork.load(text)
    matmuls = [node for node in whole.nodes if " = matmul(" in node.line or " = gemm(" in node.line]
    assert whole.size > 90 and len(matmuls) > 2
    wanted = matmuls[len(matmuls) // 2].made[0]
    compile_ = f"'{KPUSIM}' compile \"$0\" --platform tile32 --precision f32 -o '{tmp_path}/c.kpu' --force"
    found = reduce(text, ["sh", "-c", f'! {{ grep -q "  %{wanted} = " "$0" && {compile_}; }}', "{}"])
    least = tmp_path / "least.txt"
    found.network.write(least)
    assert found.network.size == 1 and wanted in least.read_text()
    compiled = subprocess.run(
        [KPUSIM, "compile", least, "--platform", "tile32", "--precision", "f32", "-o", tmp_path / "p.kpu"],
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip
    assert compiled.returncode == 0 and "made-up" not in compiled.stderr, compiled.stderr


def test_time_is_kept(tmp_path: Path) -> None:
    """When it is over, what is left so far is written."""
    path = stated(tmp_path, 5, {60: "Elu"})
    slow = ["sh", "-c", 'sleep 0.2; "$@"', "sh", *failing("Elu")]
    found = reduce(path, slow, time_limit=0.5)
    assert not found.complete and found.runs <= 4
    once = 'test -e "$0.seen" && sleep 9; touch "$0.seen"; exit 1'
    hangs = reduce(path, ["sh", "-c", once, "{}"], run_time=0.5,
                   time_limit=1.0)  # fmt: skip
    assert not hangs.complete and hangs.network.size == 120  # what takes too long does not fail


def test_graphs_inside_are_kept_whole(tmp_path: Path) -> None:
    """A branch reads values of the graph around it: they become inputs."""
    branch = [
        onnx.helper.make_graph(
            [onnx.helper.make_node(kind, ["v40"], [f"{kind}_out"])], kind, [],
            [onnx.helper.make_tensor_value_info(f"{kind}_out", onnx.TensorProto.FLOAT, [8, 8])],
        )
        for kind in ("Relu", "Tanh")
    ]  # fmt: skip
    model = network(6, 100, {})
    graph = model.graph
    graph.input.append(onnx.helper.make_tensor_value_info("flag", onnx.TensorProto.BOOL, []))
    graph.node.append(
        onnx.helper.make_node("If", ["flag"], ["out"], "if", then_branch=branch[0], else_branch=branch[1])
    )
    graph.output.append(onnx.helper.make_tensor_value_info("out", onnx.TensorProto.FLOAT, [8, 8]))
    onnx.save(model, tmp_path / "model.onnx")
    assert (
        main(
            [
                str(tmp_path / "model.onnx"),
                "-o",
                str(tmp_path / "least.onnx"),
                "--quiet",
                "--",
                *failing("If"),
            ]
        )
        == 0
    )
    assert kinds_of(tmp_path / "least.onnx") == ["If"]
    names = [value.name for value in onnx.load(tmp_path / "least.onnx").graph.input]
    assert sorted(names) == ["flag", "v40"]
