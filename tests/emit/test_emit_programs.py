"""The emitter of docs/emit_programs.md: its program is checked, run and compared with NumPy, in each form.

usage: KPUSIM=path/to/kpusim PROTOC=path/to/protoc python -m unittest test_emit_programs
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np
from google.protobuf import text_format
from support import ROOT, files, kpusim, program_class, schema

BLOCK = re.compile(r"^```python (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PLATFORM = ("--platform", "npm_lite")


class EmitTest(unittest.TestCase):
    """A folder with what the page's scripts make."""

    def setUp(self) -> None:
        """Run the scripts of the page."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        page = (ROOT / "docs/emit_programs.md").read_text(encoding="utf-8")
        self.scripts = dict(BLOCK.findall(page))
        (self.work / "schema.bin").write_bytes(schema())
        self.program = self.work / "rows.pb"
        self.script("emit.py", self.work / "schema.bin", self.program)
        self.container = self.work / "rows"
        self.script("pack.py", self.program, self.container)
        self.text = self.work / "rows.textproto"
        message = program_class(files(schema())).FromString(self.program.read_bytes())
        self.text.write_text(text_format.MessageToString(message), encoding="utf-8")

    def script(self, name: str, *arguments: object) -> None:
        """Run a script of the page, as it stands there or as a test changed it."""
        path = self.work / name
        path.write_text(self.scripts[name], encoding="utf-8")
        subprocess.run([sys.executable, path, *map(str, arguments)], check=True, timeout=100)

    def test_every_form_gives_the_values(self) -> None:
        """Small integers, so that a sum is exact; nothing is found, and every form takes the same time."""
        random = np.random.default_rng(52)
        x, w = (random.integers(-8, 9, (rows, 32)).astype(np.float16) for rows in (128, 32))
        for name, array in (("X", x), ("W", w)):
            np.save(self.work / f"{name}.npy", array.reshape(-1))
        inputs = [f"--input={name}={self.work / name}.npy" for name in ("X", "W")]
        stats = set()
        for path in (self.program, self.text, self.container):
            done = kpusim("check", path, *PLATFORM, "--strict")
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            out = self.work / f"{path.name}.out"
            done = kpusim("run", path, *PLATFORM, *inputs, "--strict", "-o", out)
            self.assertEqual(done.returncode, 0, done.stderr)
            y = np.load(out / "outputs/Y.npy").reshape(128, 32)
            np.testing.assert_array_equal(y, (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16))
            stats.add((out / "stats.json").read_text())
        self.assertEqual(len(stats), 1)

    def test_a_forgotten_token_is_found(self) -> None:
        """A forgotten token is found as the page says: tasks, bytes, iterations, fix; lines of a text."""
        right = self.scripts["emit.py"]
        self.scripts["emit.py"] = right.replace("[load_w, load_x]", "[load_w]")
        self.assertNotEqual(self.scripts["emit.py"], right)
        self.script("emit.py", self.work / "schema.bin", self.program)
        done = kpusim("check", self.program, *PLATFORM, "--strict")
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stdout, r"hazard \(raw\).*bytes \d+\.\.\d+ of L1\[0\] buffer `xs`.*Fix:")
        message = program_class(files(schema())).FromString(self.program.read_bytes())
        lines = text_format.MessageToString(message).splitlines(keepends=True)
        self.text.write_text("".join(lines), encoding="utf-8")
        statements = [number for number, line in enumerate(lines, 1) if line.startswith("statement")]
        found = kpusim("check", self.text, *PLATFORM).stdout
        self.assertIn(f"rows.textproto:{statements[3]}:1: warning: hazard (raw)", found)
        self.assertIn(f"at {self.text}:{statements[2]}:1", found)

    def test_the_pages_container_is_ours(self) -> None:
        """Byte for byte what `asm` writes."""
        made = self.work / "made.kpu"
        self.assertEqual(kpusim("asm", self.program, "-o", made).returncode, 0)
        self.assertEqual(made.read_bytes(), self.container.read_bytes())

    def test_explain_takes_it(self) -> None:
        """Runs are explained, whatever form the program had."""
        out = self.work / "explained"
        events = self.work / "events.kpuev"
        arguments = (*PLATFORM, "--mode", "timing", "-o", out, "--events", events)
        self.assertEqual(kpusim("run", self.text, *arguments).returncode, 0)
        done = kpusim("explain", events)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("cycles", done.stdout)


if __name__ == "__main__":
    unittest.main()
