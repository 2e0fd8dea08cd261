"""A wheel of the Python package works in an environment that has nothing of ours but it.

usage: check_wheel.py [--packages FOLDER] WHEELS: NumPy and protobuf come from that folder; else NumPy is
the system's. WHEELS has one wheel, which --packages takes for one that auditwheel repaired.
"""

from __future__ import annotations

import email
import os.path
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = sys.argv[2] if sys.argv[1] == "--packages" else ""
WHEELS = sorted(Path(sys.argv[-1]).glob("*.whl"))
if len(WHEELS) != 1:
    sys.exit(f"error: {len(WHEELS)} wheels in {sys.argv[-1]}. Fix: scripts/python_install.sh wheel")
WHEEL = WHEELS[0].resolve()
PROGRAM = ROOT / "tests" / "install" / "copy.nem"
CALL = f"""
import kpusim
run = kpusim.simulate({str(PROGRAM)!r}, "npm_lite", fill=7)
assert (run.outputs["y"] == kpusim.simulate({str(PROGRAM)!r}, "npm_lite", fill=7).outputs["y"]).all()
print(run.cycles, kpusim.__file__)
"""
MESSAGES = """
from google.protobuf import text_format
from kpusim_messages.platforms import platform_pb2
import sys
print(text_format.Parse(sys.stdin.read(), platform_pb2.Platform()).name)
"""


def output(*command: object, standard_input: str = "") -> str:
    """Return what a command prints; it must succeed, and finds nothing of the caller's environment."""
    done = subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        input=standard_input,
        env={
            "PATH": "/usr/bin:/bin",
            "HOME": tempfile.gettempdir(),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        cwd=tempfile.gettempdir(),
    )
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Wheel(unittest.TestCase):
    """In an environment of its own."""

    folder: tempfile.TemporaryDirectory[str]
    bin: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Makes it."""
        cls.folder = tempfile.TemporaryDirectory()
        venv = Path(cls.folder.name) / "venv"
        cls.bin = venv / "bin"
        output("/usr/bin/python3", "-m", "venv", *([] if PACKAGES else ["--system-site-packages"]), venv)
        install = [cls.bin / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        from_there = ["--no-index", "--find-links", Path(PACKAGES).resolve(), f"{WHEEL}[messages]"]
        output(*install, *(from_there if PACKAGES else ["--no-deps", WHEEL]))

    @classmethod
    def tearDownClass(cls) -> None:
        """Removes it."""
        cls.folder.cleanup()

    def test_command_and_import(self) -> None:
        """Both are there, and agree about the cycles of a program."""
        cycles, place = output(self.bin / "python", "-c", CALL).split()
        self.assertTrue(place.startswith(str(self.bin.parent)), place)
        run = [self.bin / "kpusim", "run", PROGRAM, "--platform", "npm_lite", "--fill", "random:7"]
        self.assertIn(f" {int(cycles):,} cycles at ", output(*run))

    def test_sweep(self) -> None:
        """The verb of the package, from the command beside it, which is not in PATH."""
        self.assertIn("kpusim sweep SPEC -o DIR", output(self.bin / "kpusim", "sweep", "--help"))

    def test_llm(self) -> None:
        """The same of language models."""
        self.assertIn("CONFIG", output(self.bin / "kpusim", "llm", "--help"))

    def test_calibrate(self) -> None:
        """The same of platforms."""
        self.assertIn("MEASURED.csv", output(self.bin / "kpusim", "calibrate", "--help"))

    def test_reduce(self) -> None:
        """The same of failing networks."""
        self.assertIn("COMMAND", output(self.bin / "kpusim", "reduce", "--help"))

    def test_digits(self) -> None:
        """The network of handwritten digits, by the installed command, with NumPy."""
        with tempfile.TemporaryDirectory() as folder:
            script = ROOT / "examples" / "digits" / "run.py"
            text = output(
                self.bin / "python", script, "--kpusim", self.bin / "kpusim", "--out", f"{folder}/out"
            )
        self.assertIn("logits equal to NumPy's bit for bit", text)

    def test_metadata(self) -> None:
        """Says what it is, whose, and under which licence."""
        with zipfile.ZipFile(WHEEL) as archive:
            name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
            metadata = email.message_from_bytes(archive.read(name))
            names = archive.namelist()
        for key in (
            "Name",
            "Version",
            "Summary",
            "Author",
            "License-Expression",
            "Requires-Python",
            "Keywords",
        ):
            self.assertTrue(metadata[key], key)
        self.assertGreater(len(metadata.get_all("Classifier", [])), 3)
        self.assertTrue(any(name.endswith("licenses/NOTICE") for name in names))

    @unittest.skipUnless(PACKAGES, "needs protobuf")
    def test_messages(self) -> None:
        """Modules of the schemas read our files."""
        text = (ROOT / "platforms" / "edge16.textproto").read_text()
        self.assertEqual(output(self.bin / "python", "-c", MESSAGES, standard_input=text), "edge16\n")

    @unittest.skipUnless(PACKAGES, "of a repaired wheel")
    def test_no_library_of_the_system(self) -> None:
        """But those that every Linux has."""
        site = next((self.bin.parent / "lib").glob("python*/site-packages"))
        binaries = [*site.glob("kpusim/_core*.so"), *site.glob("kpusim.scripts/kpusim")]
        self.assertEqual(len(binaries), 2)
        common = (
            "linux-vdso",
            "ld-linux",
            "libc.so",
            "libm.so",
            "libgcc_s",
            "libstdc++",
            "libz.so",
        )
        for binary in binaries:
            for line in output("ldd", binary).splitlines():
                name, _, place = line.strip().partition(" => ")
                if not any(part in name for part in common):
                    self.assertIn("/site-packages/kpusim.libs/", os.path.normpath(place.split()[0]), line)
        licences = {path.name for path in site.glob("kpusim/licences/*")}
        self.assertLessEqual({"libsystemc", "libsleef3", "libisl23", "libgmp10"}, licences)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
