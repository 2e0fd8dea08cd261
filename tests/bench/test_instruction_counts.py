"""The gate itself: what it counts, when it fails, and what it says."""

from __future__ import annotations

import io
import json
import sys
import tempfile
import unittest
from collections import Counter
from contextlib import redirect_stdout
from pathlib import Path
from typing import ClassVar
from unittest.mock import patch

import instruction_counts as gate

PROFILE = """events: Ir

ob=(1) /build/bin/kpusim
fl=(1) a.cpp
fn=(1) main
10 7
+3 5
cob=(2) /lib/libc.so.6
cfn=(2) malloc
calls=2 0
* 900
ob=(2)
fn=(2)
0 900
ob=(1)
fn=(3) other
-4 1
"""


class Counts(unittest.TestCase):
    """Counts of one profile."""

    def test_costs_of_calls_are_the_callee_s(self) -> None:
        """A line after `calls=` has the callee's counts."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "profile"
            path.write_text(PROFILE)
            counts = gate.by_object(path)
        self.assertEqual(counts, {"kpusim": 13, "libc.so.6": 900})
        self.assertEqual(gate.total(counts), 13)

    def test_models_are_the_same_each_time(self) -> None:
        """So their compilation takes as much."""
        self.assertEqual(gate.small_models.attention(8, 8), gate.small_models.attention(8, 8))


class Gate(unittest.TestCase):
    """With counts that are made up."""

    HERE: ClassVar = {"compiler": "c++ 1", "valgrind": "3"}

    def run_gate(
        self, known: int, now: int, *options: str, here: dict[str, str] = HERE
    ) -> tuple[int, str, dict]:
        """Exit code, what it said and the file after it."""
        names = [each.name for each in gate.BENCHMARKS]
        said = io.StringIO()
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "counts.json"
            path.write_text(json.dumps({"made_with": self.HERE, "instructions": dict.fromkeys(names, known)}))
            found = {name: Counter({"kpusim": known}) for name in names} | {"text": Counter({"kpusim": now})}
            with (
                patch.object(gate, "EXPECTED", path),
                patch.object(gate, "made_with", lambda *_: here),
                patch.object(gate, "measure_all", lambda *_: found),
                patch.object(sys, "argv", ["gate", "kpusim", *options]),
                redirect_stdout(said),
            ):
                code = gate.main()
            return code, said.getvalue(), json.loads(path.read_text())

    def test_a_regression_fails(self) -> None:
        """It says the name, both counts, how much, and how to accept it."""
        code, said, _ = self.run_gate(1000, 1011)
        self.assertEqual(code, 1)
        self.assertIn("text: 1,000 -> 1,011 instructions, +1.10%: more than 1% above. Fix: ", said)
        self.assertIn("--update", said)

    def test_noise_passes(self) -> None:
        """In silence."""
        for now in (1009, 991):
            code, said, _ = self.run_gate(1000, now)
            self.assertEqual(code, 0)
            self.assertNotIn("update", said)

    def test_an_improvement_wants_an_update(self) -> None:
        """It passes."""
        code, said, _ = self.run_gate(1000, 900)
        self.assertEqual(code, 0)
        self.assertIn("text: 1,000 -> 900 instructions, -10.00%: better; update the counts", said)

    def test_update_writes(self) -> None:
        """Better and worse counts are both written."""
        code, _, file = self.run_gate(1000, 2000, "--update")
        self.assertEqual(code, 0)
        self.assertEqual(file["instructions"]["text"], 2000)
        self.assertEqual(file["instructions"]["check"], 1000)

    def test_another_compiler_compares_nothing_and_says_so(self) -> None:
        """It passes, and an update takes all counts from there."""
        here = {"compiler": "c++ 2", "valgrind": "3"}
        code, said, file = self.run_gate(1000, 2000, here=here)
        self.assertEqual(code, 0)
        self.assertIn("compiler: c++ 1 there, c++ 2 here", said)
        self.assertIn("Nothing was compared.", said)
        _, _, file = self.run_gate(1000, 2000, "--update", here=here)
        self.assertEqual(file["made_with"], here)


if __name__ == "__main__":
    unittest.main()
