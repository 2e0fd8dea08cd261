"""The package for C++ projects does what docs/install.md says: it is installed, and used as others would.

usage: test_install.py BUILD CMAKE: the tree that it is installed from, and the cmake that made it
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD, CMAKE = Path(sys.argv[1]), sys.argv[2]
PROGRAM = HERE / "copy.nem"
VERSION = ".".join(
    re.search(r"project\(kpusim VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1].split(".")[:2]
)
ENVIRONMENT = {**os.environ, "CCACHE_DISABLE": "1"}  # what it compiles is compiled


def output(*command: object, fails: bool = False, **environment: str) -> str:
    """Return what a command prints, when it succeeds; all that it says, when it must fail."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, env={**ENVIRONMENT, **environment}
    )
    said = done.stdout + done.stderr
    if (done.returncode != 0) != fails:
        raise AssertionError(f"{' '.join(map(str, command))} ends with {done.returncode}:\n{said}")
    return said if fails else done.stdout


def configure(source: Path, build: Path, *options: str, fails: bool = False) -> str:
    """Runs cmake, as a user does: without a line break in its messages."""
    text = output(CMAKE, "-S", source, "-B", build, "-G", "Ninja", *options, fails=fails)
    return " ".join(text.split())


class Package(unittest.TestCase):
    """Packages from one installation."""

    folder: tempfile.TemporaryDirectory[str]
    prefix: Path
    work: Path

    @classmethod
    def setUpClass(cls) -> None:
        """Installs it, and builds the project that uses it."""
        cls.folder = tempfile.TemporaryDirectory()
        cls.work = Path(cls.folder.name)
        cls.prefix = cls.work / "prefix"
        for component in ("simulator", "compiler", "command"):
            output(CMAKE, "--install", BUILD, "--prefix", cls.prefix, "--component", component)
        cls.consumer = cls.work / "consumer"
        configure(
            HERE / "consumer", cls.consumer, f"-DCMAKE_PREFIX_PATH={cls.prefix}", f"-DKPUSIM_WANTED={VERSION}"
        )
        output(CMAKE, "--build", cls.consumer)

    @classmethod
    def tearDownClass(cls) -> None:
        """Removes it."""
        cls.folder.cleanup()

    def cycles(self, platform: str) -> int:
        """Return the cycles of the installed command for the program."""
        command = self.prefix / "bin" / "kpusim"
        text = output(command, "run", PROGRAM, "--platform", platform, "--fill", "random:7", "--json")
        return int(json.loads(text)["stats"]["cycles.total"]["value"])

    def run_plain(self, program: Path) -> str:
        """Run the consumer that has no SystemC; it leaves what the command leaves."""
        command, compiled = self.prefix / "bin" / "kpusim", self.work / "copy.kpu"
        output(command, "asm", PROGRAM, "-o", compiled, "--force")
        with tempfile.TemporaryDirectory() as name:
            ours, theirs = Path(name) / "ours", Path(name) / "theirs"
            output(command, "run", PROGRAM, "--platform", "npm_lite", "--fill", "random:7", "-o", ours)
            text = output(program, compiled, "npm_lite", theirs)
            for file in ("stats.json", "ops.csv", "platform.textproto", "outputs/y.npy"):
                self.assertEqual((ours / file).read_bytes(), (theirs / file).read_bytes(), file)
        return text

    def test_steps_inside_the_systemc_of_another(self) -> None:
        """Two devices; the time, the reports and the resolution of the other are its own."""
        text = output(self.consumer / "testbench", PROGRAM)
        self.assertIn(f"cycles {self.cycles('npm_lite')} {self.cycles('edge16')}\n", text)

    def test_simulator_alone(self) -> None:
        """A main without SystemC, linked with one library, which needs no reader of networks."""
        text = self.run_plain(self.consumer / "plain")
        self.assertRegex(text, rf"^{self.cycles('npm_lite')} cycles, version {VERSION}\.\d+$")
        needed = output("readelf", "-d", self.prefix / "lib" / "libkpusim.so")
        for library in ("onnx", "png", "jpeg"):
            self.assertNotIn(library, needed)
        self.assertIn(f"[libkpusim.so.{VERSION}]", needed)

    def test_pkg_config(self) -> None:
        """The same, without CMake."""
        path = str(self.prefix / "lib" / "pkgconfig")
        flags = output("pkg-config", "--cflags", "--libs", "kpusim", PKG_CONFIG_PATH=path).split()
        include = next(flag.removeprefix("-I") for flag in flags if flag.startswith("-I"))
        self.assertTrue((Path(include) / "kpusim" / "version.hpp").is_file(), include)
        program = self.work / "by_pkg_config"
        source = self.consumer / "CMakeFiles" / "plain.dir" / "plain.cpp.o"
        output("c++", source, *flags, f"-Wl,-rpath,{self.prefix}/lib", "-o", program)
        self.assertIn("cycles", self.run_plain(program))

    def test_only_our_names_are_exported(self) -> None:
        """Templates of others that we use would else meet those of the user."""
        for library in ("libkpusim.so", "libkpusim_compiler.so"):
            text = output("nm", "-DC", "--defined-only", self.prefix / "lib" / library)
            names = [line.split(maxsplit=2)[2] for line in text.splitlines()]
            self.assertGreater(len(names), 300)
            others = [name for name in names if not re.search(r"\bkpu::|^kpusim_is_version_|^sc_main$", name)]
            self.assertEqual(others, [])

    def test_headers_are_those_of_the_list(self) -> None:
        """Each of the list is there, under its name, and docs/cpp.md names it; none includes what is not."""
        listed = (ROOT / "cmake" / "public_headers.txt").read_text().splitlines()
        page = (ROOT / "docs" / "cpp.md").read_text()
        include = self.prefix / "include"
        for name in listed:
            if not name.startswith("#"):
                self.assertTrue((include / "kpusim" / name).is_file(), name)
                self.assertIn(f"`{name}`", page)
        for header in include.rglob("*.h*"):
            for name in re.findall(r'#include ["<](kpusim/[^">]+)|#include "', header.read_text()):
                self.assertTrue(name and (include / name).is_file(), f"{header}: {name}")

    def test_another_version_is_refused(self) -> None:
        """CMake refuses another version, and says what there is."""
        text = configure(
            HERE / "consumer",
            self.work / "newer",
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DKPUSIM_WANTED=9.1",
            fails=True,
        )
        self.assertIn('compatible with requested version "9.1"', text)
        self.assertIn(f"kpusimConfig.cmake, version: {VERSION}.", text)

    def test_a_component_that_is_not_there(self) -> None:
        """Is named, with those that are."""
        text = configure(
            HERE / "consumer",
            self.work / "component",
            f"-DCMAKE_PREFIX_PATH={self.prefix}",
            "-DKPUSIM_COMPONENTS=viewer",
            fails=True,
        )
        self.assertIn("kpusim has no component `viewer`", text)
        self.assertIn("Fix: ask for simulator or compiler", text)

    def test_headers_of_another_version(self) -> None:
        """The linker names theirs."""
        header = self.prefix / "include" / "kpusim" / "version.hpp"
        other = self.work / "other" / "kpusim" / "version.hpp"
        other.parent.mkdir(parents=True)
        symbol = f"kpusim_is_version_{VERSION.replace('.', '_')}_simulator"
        self.assertIn(symbol, header.read_text())
        other.write_text(header.read_text().replace(symbol, "kpusim_is_version_9_1_simulator"))
        source = self.work / "mixed.cpp"
        source.write_text("#include <kpusim/version.hpp>\nint main() {}\n")
        link = ["c++", source, f"-L{self.prefix}/lib", "-lkpusim", "-o", self.work / "mixed"]
        text = output(*link, f"-I{self.work}/other", fails=True)
        self.assertIn("undefined reference to `kpusim_is_version_9_1_simulator'", text)
        output(*link, f"-I{self.prefix}/include")


class Subproject(unittest.TestCase):
    """Use as a part of another tree."""

    def configured(self, *options: str) -> tuple[Path, str]:
        """Return where the tree is, and the compile command of its own target."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        build = Path(folder.name)
        configure(HERE / "subproject", build, f"-DKPUSIM_SOURCES={ROOT}", *options)
        commands = json.loads((build / "compile_commands.json").read_text())
        return build, next(row["command"] for row in commands if row["file"].endswith("consumer/plain.cpp"))

    def test_nothing_leaks(self) -> None:
        """No flag of ours, no test, no package that only tests need."""
        build, command = self.configured(
            "-DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_benchmark=ON"
        )
        flags = [word for word in command.split() if word.startswith(("-W", "-f", "-O"))]
        self.assertEqual(flags, [])
        self.assertNotIn(f"-I{ROOT} ", command)
        self.assertEqual((build / "tests.txt").read_text(), "")
        self.assertEqual((build / "linked.txt").read_text(), "kpusim::kpusim")

    def test_simulator_needs_no_reader_of_networks(self) -> None:
        """With KPUSIM_COMPILER off."""
        without = [f"-DCMAKE_DISABLE_FIND_PACKAGE_{name}=ON" for name in ("ONNX", "PNG", "CLI11")]
        build, command = self.configured("-DKPUSIM_COMPILER=OFF", *without)
        self.assertIn("package/include", command)
        self.assertNotIn("kpusim_compiler", (build / "build.ninja").read_text())

    def test_tests_need_the_compiler(self) -> None:
        """Said before anything is built."""
        with tempfile.TemporaryDirectory() as name:
            text = configure(ROOT, Path(name), "-DKPUSIM_COMPILER=OFF", "-DKPUSIM_TESTS=ON", fails=True)
            self.assertIn("Fix: -DKPUSIM_TESTS=OFF too.", text)

    def test_old_systemc_is_refused(self) -> None:
        """An old SystemC is refused by its version, with where it is."""
        with tempfile.TemporaryDirectory() as name:
            header = Path(name) / "sysc" / "kernel" / "sc_ver.h"
            header.parent.mkdir(parents=True)
            parts = (("MAJOR", 2), ("MINOR", 3), ("PATCH", 1))
            header.write_text("".join(f"#define SC_VERSION_{part}      {value}\n" for part, value in parts))
            text = configure(ROOT, Path(name) / "build", f"-DSYSTEMC_INCLUDE={name}", fails=True)
            self.assertIn(f"SystemC in {name} is 2.3.1. Fix: install 2.3.4", text)

    def test_old_compiler_is_refused(self) -> None:
        """An old compiler is refused by its version."""
        claims = ("ID_RUN=1", "ID=GNU", "VERSION=10.2.1", "FORCED=1")
        with tempfile.TemporaryDirectory() as name:
            old = [f"-DCMAKE_CXX_COMPILER_{claim}" for claim in claims]
            text = configure(ROOT, Path(name), *old, fails=True)
            self.assertIn("is GCC 10.2.1, whose library cannot read floating-point numbers", text)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
