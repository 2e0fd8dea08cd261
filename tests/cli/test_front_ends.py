"""Every front end through the command: by name, by standard input, through a pipe; and what is none of them.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_front_ends
"""

from __future__ import annotations

import json
import os
import pickle
import struct
import subprocess
import tempfile
import unittest
from pathlib import Path

KPUSIM = os.environ["KPUSIM"]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
NEM = """program small:
buffer x : DDR (size = 4096, align = 64)
buffer m : L2 (size = 4096, align = 64)
a = transfer.async(dst=region(m, 0, 4096), src=region(x, 0, 4096))
"""
MESSAGE = """# NEM, as protobuf text
name: "small"
buffer { name: "x" size { token { value: 4096 } } align { token { value: 64 } } }
buffer { name: "m" level: L2 size { token { value: 4096 } } align { token { value: 64 } } }
region { buffer: 1 offset { token { value: 0 } } extent { token { value: 4096 } } }
region { offset { token { value: 0 } } extent { token { value: 4096 } } }
statement { task { name: "a" input { region: 1 } output { region: 0 } } }
"""
SCHEDULE = (
    "tile 32 f32\ntensor 0 x 32 32 input\ntensor 1 w 32 32 weight\ntensor 2 y 32 32 output\n"
    "L 0 0 0 0\nL 1 0 0 4096\nE 0 0 0 0 4096 8192\nS 2 0 0 8192 0\n"
)
TOPOLOGY = "Layer, M, N, K,\nfc1, 33, 20, 7,\nfc2, 8, 8, 100,\n"
COMPARED = (
    "none of: .kpu program, ONNX model, graph text, Pallas export, tile schedule, SCALE-Sim topology, "
    "NEM text. Fix:"
)


def kpusim(*arguments: object, data: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the command."""
    return subprocess.run(
        [KPUSIM, *map(str, arguments)], input=data, capture_output=True, timeout=100, check=False
    )


class FrontEndTest(unittest.TestCase):
    """A folder with a file for each front end."""

    def setUp(self) -> None:
        """Write the files, under names that say nothing."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)
        self.files = {
            "NEM text": self.write("one", NEM.encode()),
            "tile schedule": self.write("two", SCHEDULE.encode()),
            "SCALE-Sim topology": self.write("three", TOPOLOGY.encode()),
        }
        container = self.work / "four"
        self.run_ok("asm", self.files["NEM text"], "-o", container)
        self.files[".kpu program"] = container
        content = container.read_bytes()
        begin, size = struct.unpack_from("<QQ", content, 24)
        self.files["message"] = self.write("five", content[begin : begin + size])
        self.files["text of a message"] = self.write("six", MESSAGE.encode())
        for form in ("packed", "protobuf", "json"):
            other = self.work / form
            self.run_ok("disasm", self.files["tile schedule"], "--as", form, "-o", other)
            self.files[form] = other
        self.header = self.write("header", SCHEDULE.split("L 0")[0].encode())

    def write(self, name: str, content: bytes) -> Path:
        """Write a file into the work folder."""
        path = self.work / name
        path.write_bytes(content)
        return path

    def run_ok(self, *arguments: object, data: bytes | None = None) -> bytes:
        """Run the command, which must succeed; its standard output."""
        result = kpusim(*arguments, data=data)
        self.assertEqual(result.returncode, 0, (arguments, result.stderr))
        return result.stdout

    def options(self, kind: str) -> list[object]:
        """Return the options that a file needs: the packed form has no header."""
        return ["--header", self.header] if kind == "packed" else []

    def test_run_and_check_take_every_kind(self) -> None:
        """Every kind from its file, from standard input and through a pipe gives the same statistics."""
        for kind, path in self.files.items():
            schedule = kind in ("tile schedule", "packed", "protobuf", "json")
            arguments = ["--platform", "tile32" if schedule else "npm_lite", "--mode", "timing", "--quiet"]
            arguments += ["--json", *self.options(kind)]
            by_file = self.run_ok("run", path, *arguments)
            self.assertGreater(json.loads(by_file)["stats"]["cycles.total"]["value"], 0)
            self.assertEqual(self.run_ok("run", "-", *arguments, data=path.read_bytes()), by_file, kind)
            command = ["/bin/bash", "-c", '"$0" run <(cat "$1") "${@:2}"', KPUSIM, path, *arguments]
            piped = subprocess.run(list(map(str, command)), capture_output=True, timeout=100, check=False)
            self.assertEqual(piped.returncode, 0, piped.stderr)
            self.assertEqual(piped.stdout, by_file, kind)
            self.run_ok("check", path, *arguments[:2], *self.options(kind))

    def test_asm_and_disasm_take_every_kind(self) -> None:
        """The text of a program and of its container are the same."""
        for kind, path in self.files.items():
            container = self.work / "out.kpu"
            self.run_ok("asm", path, "-o", container, *self.options(kind))
            text = self.run_ok("disasm", path, *self.options(kind))
            self.assertEqual(self.run_ok("disasm", container), text, kind)

    def test_messages_are_their_program(self) -> None:
        """A message without a container is the program that the container holds, to every verb."""
        for kind in ("message", "text of a message"):
            path, made = self.files[kind], self.work / "made.kpu"
            self.run_ok("asm", path, "-o", made)
            self.assertEqual(made.read_bytes(), self.files[".kpu program"].read_bytes(), kind)
            for verb in (["run", "--fill", "zeros"], ["check", "--memory"], ["debug", "--fill", "zeros"]):
                arguments = [*verb, "--platform", "npm_lite"]
                self.run_ok(arguments[0], path, *arguments[1:], data=b"" if verb[0] == "debug" else None)

    def test_findings_of_a_message_have_their_line(self) -> None:
        """An error of a text is at its line and column; one of the bytes at its byte."""
        text = MESSAGE.replace(
            "size { token { value: 4096 } } align", "size { token { value: 64 } } align", 1
        )
        result = kpusim("check", self.write("small.textproto", text.encode()))
        self.assertIn("small.textproto:6:1: error: ", result.stdout.decode())
        self.assertEqual(result.returncode, 1)
        content = self.files["message"].read_bytes()
        result = kpusim("check", self.write("cut", content[:-1]))
        self.assertRegex(
            result.stdout.decode(), r"cut: error: no valid KPUProgram message at byte \d+ \(KPUProgram"
        )
        self.assertEqual(result.stdout.count(b"\n"), 1)
        self.assertEqual(result.stdout.count(b"error: "), 1)

    def test_too_large_a_message(self) -> None:
        """It is refused by its size, before a byte of it is read."""
        for kind in ("message", "text of a message"):
            path = self.write("large", self.files[kind].read_bytes())
            os.truncate(path, (1 << 30) + 1)
            result = kpusim("check", path)
            self.assertEqual(result.returncode, 1)
            self.assertIn("large: ", result.stdout.decode())
            self.assertIn("1073741824 bytes", result.stdout.decode())

    def test_asm_replaces_its_output(self) -> None:
        """With --force, and without, as before; the program that it reads with --force only."""
        source, made = self.files["NEM text"], self.work / "made.kpu"
        for options in ([], [], ["--force"]):
            self.run_ok("asm", source, "-o", made, *options)
        expected = made.read_bytes()
        self.write("other", b"other")
        self.run_ok("asm", source, "-o", self.work / "other", "--force")
        self.assertEqual((self.work / "other").read_bytes(), expected)
        (self.work / "link").symlink_to(source.name)
        before = source.read_bytes()
        for output in (source, self.work / "link"):
            result = kpusim("asm", source, "-o", output)
            self.assertEqual(result.returncode, 1)
            self.assertEqual(
                result.stderr.decode(),
                f"error: {output} is the program that is read. Fix: give another name, or --force to replace "
                "it by its container.\n",
            )
            self.assertEqual(source.read_bytes(), before)
        self.run_ok("asm", source, "-o", source, "--force")
        self.assertEqual(source.read_bytes(), expected)

    def test_what_is_no_program(self) -> None:
        """Each is refused by saying with what it was compared, by every verb that reads programs."""
        files = {
            "picture": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR",
            "gif": b"GIF89a\x01\0\x01\0\x80",
            "archive": b"PK\x03\x04\x14\0\0\0",
            "elf": Path(KPUSIM).read_bytes()[:100000],
            "array": b"\x93NUMPY\x01\0v\0{'descr'",
            "random": bytes(range(255, 127, -1)) * 900,
            "svg": b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        }
        for name, content in files.items():
            path = self.write(name + ".nem", content)
            for verb in (["run"], ["check"], ["asm", "-o", self.work / "x"], ["disasm"]):
                result = kpusim(*verb, path)
                said = (result.stdout + result.stderr).decode()
                self.assertEqual(result.returncode, 1, said)
                self.assertIn(f"{path}: error: this is {COMPARED}", said)
            result = kpusim("run", "-", data=content)
            self.assertIn(f"<stdin>: error: this is {COMPARED}", result.stderr.decode())
        self.assertFalse((self.work / "x").exists())
        for path, what in ((self.work, "a folder"), (self.write("empty.csv", b""), "empty")):
            result = kpusim("run", path)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"{path}: error: this is {what}, so {COMPARED}", result.stderr.decode())

    def test_pickle_is_refused_by_name(self) -> None:
        """A pickle is never read."""
        result = kpusim("run", self.write("model.kpu", pickle.dumps({"a": 1})))
        self.assertEqual(result.returncode, 1)
        self.assertIn("Python pickle, which kpusim never unpickles", result.stderr.decode())

    def test_csv_is_told_by_content(self) -> None:
        """A topology needs no .csv, and a .csv need be none."""
        expected = self.run_ok("disasm", self.files["SCALE-Sim topology"])
        self.assertIn(b"fc2", expected)
        for name in ("three.csv", "three.txt"):
            self.write(name, TOPOLOGY.encode())
            self.assertEqual(self.run_ok("disasm", self.work / name), expected)
        self.assertEqual(
            self.run_ok("disasm", self.write("one.csv", NEM.encode())),
            self.run_ok("disasm", self.files["NEM text"]),
        )

    def test_values_of_a_topology(self) -> None:
        """There are none, so that the run is one of time unless a mode asks for them."""
        path = self.files["SCALE-Sim topology"]
        self.run_ok("run", path, "--platform", "npm_lite", "--quiet")
        for mode in ("values+timing", "functional"):
            result = kpusim("run", path, "--platform", "npm_lite", "--mode", mode)
            self.assertEqual(result.returncode, 1)
            self.assertIn("a SCALE-Sim topology has no data to compute with", result.stderr.decode())

    def test_options_are_of_their_front_end(self) -> None:
        """--header is made of the row of tile schedules, and refused for other files."""
        for verb in ("run", "check", "asm", "disasm"):
            self.assertIn(b"--header", self.run_ok(verb, "--help"))
        for kind in ("NEM text", ".kpu program", "SCALE-Sim topology"):
            result = kpusim("run", self.files[kind], "--header", self.header)
            self.assertEqual(result.returncode, 1)
            self.assertIn("--header is for: tile schedule; this is: ", result.stderr.decode())

    def test_list(self) -> None:
        """The table for people and as JSON."""
        rows = {row["name"]: row for row in json.loads(self.run_ok("list", "frontends", "--json"))}
        text = self.run_ok("list", "frontends").decode()
        self.assertEqual(
            set(rows),
            {
                "NEM text",
                ".kpu program",
                "ONNX model",
                "graph text",
                "Pallas export",
                "tile schedule",
                "SCALE-Sim topology",
            },
        )
        for name, row in rows.items():
            self.assertIn(name, text)
            self.assertIn(row["description"], text)
        self.assertEqual(rows["tile schedule"]["default_platform"], "tile32")
        self.assertEqual([option["name"] for option in rows["tile schedule"]["options"]], ["header"])
        self.assertIs(rows["SCALE-Sim topology"]["has_values"], False)
        self.assertIn(b"NEM text", self.run_ok("run", "--help"))


if __name__ == "__main__":
    unittest.main()
