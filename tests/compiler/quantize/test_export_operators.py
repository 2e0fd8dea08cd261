"""Exported models of every operator: in ONNX Runtime they are what the model was, and what we compute.

usage: test_export_operators.py path/to/quantize_run

Needs tests/compiler/onnx on PYTHONPATH: its random models of one operator are the cases.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from graph_run import Array, Case, as_file, file_of, from_file
from oracle import by_numpy, by_runtime, error_of, problem, range_of
from test_operators import GENERATORS, Checked, cases_of, describe

CASES = 6  #: of each operator


def write(case: Case, folder: Path) -> None:
    """Leave the model and its inputs in a new folder."""
    folder.mkdir()
    (folder / "model.onnx").write_bytes(case.model.SerializeToString())
    for name, array in case.inputs.items():
        np.save(folder / file_of(name), np.ascontiguousarray(as_file(array)).reshape(np.shape(array)))


def exported(case: Case, folder: Path) -> Case:
    """Return the exported model, a valid one, with what ONNX Runtime makes of it."""
    model = onnx.load(folder / "qdq.onnx")
    onnx.checker.check_model(model, full_check=True)
    result = replace(case, model=model, bounds={})
    result.outputs = by_runtime(result)
    return result


def difference(case: Case, folder: Path) -> str:
    """Say where our arithmetic gives something else than the exported model; empty: nowhere.

    A sample at the end of a range lies between two of 255 steps: the next one is right, too.
    """
    for output in case.model.graph.output:
        wanted = case.outputs[output.name]
        ours = from_file(np.load(folder / "out" / file_of(output.name)), output.type.tensor_type.elem_type)
        if ours.shape != wanted.shape or ours.dtype != wanted.dtype:
            return f"{output.name}: {wanted.dtype}{wanted.shape}, ours is {ours.dtype}{ours.shape}"
        a, b = ours.astype(np.float64), wanted.astype(np.float64)
        bound = range_of(a) / 50 if ours.dtype.kind == "f" else 0
        if (error := error_of(a, b)) > bound:
            return f"{output.name}: differs from ours by {error} of {range_of(a)}"
    return ""


def change(case: Case, draft: Checked) -> str:
    """Say what the exported model changes; empty: nothing.

    The sums of bytes of ONNX Runtime itself saturate on some machines: NumPy's count, too.
    """
    changed = problem(case, draft.outputs, None)
    exact = by_numpy(draft.case) if changed else None
    return changed if exact is None else problem(case, exact, None)


def is_finite(array: Array) -> bool:
    """Return whether a quantizer finds its range."""
    return array.dtype.kind != "f" or bool(np.isfinite(array).all())


class ExportedOperators(unittest.TestCase):
    """The same cases twice: in floats, and quantized."""

    tool = ""
    drafts: tuple[Checked, ...] = ()

    @classmethod
    def setUpClass(cls) -> None:
        """Make all cases."""
        cls.drafts = tuple(draft for name in GENERATORS for draft in cases_of(name, CASES))

    def export(self, drafts: list[Checked], root: Path, *mode: str) -> list[tuple[Checked, Path]]:
        """Run the tool on all cases; those that it refuses fail."""
        folders = [root / str(number) for number in range(len(drafts))]
        for draft, folder in zip(drafts, folders, strict=True):
            write(draft.case, folder)
        subprocess.run([self.tool, *mode, *map(str, folders)], check=False, stderr=subprocess.DEVNULL)
        made = []
        for draft, folder in zip(drafts, folders, strict=True):
            if (folder / "steps.txt").exists():
                made.append((draft, folder))
                continue
            with self.subTest(describe(draft.case)):
                self.fail((folder / "error.txt").read_text())
        return made

    def test_floats(self) -> None:
        """Nothing is quantized: the exported model is the model."""
        with tempfile.TemporaryDirectory() as name:
            for draft, folder in self.export(list(self.drafts), Path(name), "--floats"):
                with self.subTest(describe(draft.case)):
                    self.assertEqual(change(exported(draft.case, folder), draft), "")

    def test_quantized(self) -> None:
        """It is what we compute; most operators have steps."""
        drafts = [draft for draft in self.drafts if all(map(is_finite, draft.case.inputs.values()))]
        quantized = 0
        with tempfile.TemporaryDirectory() as name:
            for draft, folder in self.export(drafts, Path(name)):
                with self.subTest(describe(draft.case)):
                    case = exported(draft.case, folder)
                    self.assertEqual(difference(case, folder), "")
                    quantized += any(node.op_type == "QuantizeLinear" for node in case.model.graph.node)
        self.assertGreater(quantized * 2, len(drafts))


if __name__ == "__main__":
    ExportedOperators.tool = sys.argv.pop(1)
    unittest.main()
