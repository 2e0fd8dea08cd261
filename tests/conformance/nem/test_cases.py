"""The forms that the cases are kept in: rules/TOPIC.cases, and the digests of the generated ones.

usage: test_cases.py
"""

from __future__ import annotations

import shutil
import tempfile
import unittest
from pathlib import Path

import generate
import rule_cases

TEXT = """# A comment.

==== support/part.nem
const A = 1

==== one.pass.nem

const B = 2
==== one.fail.nem
==== not a name, but a line of the program
"""


class RuleCases(unittest.TestCase):
    """rule_cases.py."""

    def setUp(self) -> None:
        """A file to read and write."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "topic.cases"

    def read(self, text: str) -> rule_cases.Files:
        """Return the files of a text."""
        self.path.write_text(text)
        return rule_cases.read(self.path)

    def refused(self, text: str, message: str) -> None:
        """The text is refused, and why."""
        with self.assertRaisesRegex(SystemExit, message):
            self.read(text)

    def test_reads(self) -> None:
        """Blank lines count at the beginning of a file, not at its end."""
        files = self.read(TEXT[: TEXT.index("==== one.fail")])
        self.assertEqual(files, {"support/part.nem": "const A = 1\n", "one.pass.nem": "\nconst B = 2\n"})

    def test_refuses(self) -> None:
        """Names of no case are refused."""
        self.refused(TEXT, "`not a name, but a line of the program` names no case")
        self.refused("const A = 1\n" + TEXT, "text before the first file")
        self.refused("==== a.pass.nem\n\n==== a.pass.nem\n", "`a.pass.nem` stands here twice")
        self.refused("==== ../a.pass.nem\n", "names no case")

    def test_writes_what_it_reads(self) -> None:
        """Every topic, to the byte."""
        for topic, files in rule_cases.topics().items():
            kept = (rule_cases.RULES / f"{topic}.cases").read_bytes()
            self.path.write_bytes(kept)
            rule_cases.write(self.path, files)
            self.assertEqual(self.path.read_bytes(), kept, topic)

    def test_writes_only_what_it_can_read(self) -> None:
        """A line that looks like the beginning of a file."""
        self.read("# kept\n")
        with self.assertRaisesRegex(SystemExit, "cannot hold a.pass.nem"):
            rule_cases.write(self.path, {"a.pass.nem": "==== b.pass.nem\n"})
        with self.assertRaisesRegex(SystemExit, "cannot hold a.pass.nem"):
            rule_cases.write(self.path, {"a.pass.nem": "no line end"})
        self.assertEqual(self.path.read_text(), "# kept\n")

    def test_unpacks(self) -> None:
        """All of them; or those asked for, with what they may include."""
        folder = self.path.parent / "all"
        paths = rule_cases.unpack(folder, [])
        self.assertEqual(len(paths), sum(map(len, rule_cases.topics().values())))
        some = rule_cases.unpack(self.path.parent / "some", ["include/search_path.pass"])
        names = sorted(path.name for path in some if path.parent.name != "support")
        self.assertEqual(names, ["search_path.pass.nem"])
        self.assertEqual(
            sorted(path.name for path in some if path.parent.name == "support"),
            sorted(path.name for path in (folder / "include" / "support").iterdir()),
        )


class Digests(unittest.TestCase):
    """generate.py --check."""

    def test_every_difference_is_found(self) -> None:
        """A byte, a name, a missing case, one too many; and the message says how to renew."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            generate.write(folder)
            self.assertEqual(generate.check(folder), "")
            first, second, third = sorted(path.name for path in folder.iterdir())[:3]
            program = folder / first / "program.nem"
            program.write_bytes(program.read_bytes() + b"\n")
            (folder / second / "device.nem").rename(folder / second / "other.nem")
            shutil.rmtree(folder / third)
            (folder / "more").mkdir()
            (folder / "more" / "program.nem").touch()
            message = generate.check(folder)
            for case in (first, second, third, "more"):
                self.assertIn(case, message)
            self.assertIn("4 execution cases differ", message)
            self.assertRegex(message, r"Fix: .*generate\.py --renew")


if __name__ == "__main__":
    unittest.main()
