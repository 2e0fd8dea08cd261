"""Folders keep the direction of dependence, sources size and form; pages are run; no file names a machine.

usage: test_structure.py

USES is the direction: a folder may include those that it uses, and what these may include. `model/*` stands
for each folder of model/ without a row of its own: a new kind of unit, front end or trace needs none.
"""

from __future__ import annotations

import re
import subprocess
import unittest
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SELF = Path(__file__).resolve()

USES = {
    "base": "",
    "isa/kernel": "base",
    "isa": "isa/kernel",
    "isa/nem": "isa",
    "values": "isa",
    "execution": "values",
    "analysis": "execution",
    "traces": "isa",
    "traces/*": "traces",
    "explain": "traces",
    "platforms": "isa/nem traces",
    "model/timing": "platforms",
    "compiler": "values model/timing",
    "compiler/*": "compiler",
    "compiler/kernels": "isa",
    "compiler/graph": "values compiler/kernels",
    "compiler/passes": "compiler/graph",
    "compiler/target": "compiler/kernels platforms model/timing",
    "compiler/tile_op": "compiler/graph",
    "compiler/mapping": "compiler/tile_op compiler/target",
    "compiler/memory": "compiler/mapping",
    "compiler/plan": "compiler/memory",
    "compiler/emit": "compiler/plan",
    "compiler/strips": "compiler/plan",
    "compiler/estimate": "compiler/target execution",
    "compiler/pipeline": "compiler/strips compiler/emit compiler/estimate compiler/precision compiler",
    "compiler/onnx": "compiler/pipeline",
    "compiler/graph_text": "compiler/pipeline",
    "compiler/precision": "compiler/passes compiler/quantize compiler/emit",
    "compiler/quantize": "compiler/graph",
    "model/stream": "values traces",
    "model/dram": "platforms traces",
    "model/memory": "model/dram model/stream",
    "model/task": "execution model/stream",
    "model/unit": "model/task model/memory model/timing",
    "model/*": "model/unit",
    "model/sequencer": "model/unit",
    "model/accounting": "model/sequencer",
    "model/device": "model/accounting model/*",
    "runtime": "model/device traces/*",
    "runtime/schedule_engine": "runtime compiler/*",
    "runtime/trials": "runtime compiler",
    "runtime/what_if": "runtime",
    "runtime/debug": "runtime",
    "runtime/compare": "runtime explain",
    "runtime/validation": "runtime/trials compiler/pipeline",
    "runtime/cli": "runtime/schedule_engine runtime/trials runtime/what_if runtime/debug runtime/compare "
    "runtime/validation analysis explain traces/*",
    "python": "runtime/schedule_engine runtime/trials runtime/what_if runtime/compare runtime/debug "
    "runtime/validation "
    "compiler/onnx analysis explain traces/*",
}
NO_SOURCES = {"tests", "cmake", "docs", "examples", "editors", "scripts"}

CPP = {".cpp", ".hpp", ".inl"}
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"([^"]+)"', re.MULTILINE)
MOST_LINES = 520
LARGE = 12  # sources: a folder that newcomers do not read through
# Large ones that have none yet: one that gets it leaves the list, none joins it.
PAGELESS = {
    "base",
    "isa",
    "isa/nem",
    "python/bindings",
    "runtime/cli",
    "runtime/validation",
    "traces",
    "values/fast",
}
# Longer ones of old, to be split: one that no longer is leaves the list, none joins it.
LONG = {"tests/cli/test_command.py", "tests/cli/test_traces.py", "tests/dram/channel_test.cpp"}

Edges = dict[tuple[str, str], list[str]]


@cache
def files() -> tuple[Path, ...]:
    """Return every file of the repository, relative to it: tracked, or new and not ignored."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return tuple(
        path for path in map(Path, sorted(set(listed.split("\0")) - {""})) if (ROOT / path).is_file()
    )


def room(path: Path) -> str:
    """Return the folder that a source counts to: two levels where USES has two."""
    first, *rest = path.parts[:-1] or ("",)
    second = f"{first}/{rest[0]}" if rest else ""
    return second if second and (second in USES or f"{first}/*" in USES) else first


def row(folder: str) -> str:
    """Return its row in USES."""
    return folder if folder in USES else f"{folder.partition('/')[0]}/*"


@cache
def may_include(name: str) -> frozenset[str]:
    """Return the rows of USES that the folders of a row may include."""
    direct = USES[name].split()
    return frozenset(direct).union(*(may_include(other) for other in direct))


def edges() -> Edges:
    """Pairs of folders, the first of which includes the second, with the places."""
    result: Edges = defaultdict(list)
    for path in files():
        if path.suffix not in CPP or path.parts[0] in NO_SOURCES:
            continue
        text = (ROOT / path).read_text(encoding="utf-8")
        for match in INCLUDE.finditer(text):
            pair = room(path), room(Path(match.group(1)))
            if pair[0] != pair[1]:
                line = text.count("\n", 0, match.start()) + 1
                result[pair].append(f"{path}:{line} includes {match.group(1)}")
    return result


def circles(pairs: set[tuple[str, str]]) -> Iterator[list[str]]:
    """Groups of folders each of which reaches every other one."""
    reach = defaultdict(set)
    for first, second in pairs:
        reach[first].add(second)
    changed = True
    while changed:
        changed = False
        for first in list(reach):
            further = set().union(*(reach[second] for second in reach[first] if second in reach))
            changed |= not further <= reach[first]
            reach[first] |= further
    seen: set[str] = set()
    for first in sorted(reach):
        if first in reach[first] and first not in seen:
            group = sorted(other for other in reach[first] if first in reach.get(other, ()))
            seen |= set(group)
            yield group


class Includes(unittest.TestCase):
    """Folders that include each other."""

    def test_no_circle(self) -> None:
        """Folders that include each other, whatever USES says."""
        found = edges()
        for group in circles(set(found)):
            places = [
                place for pair, where in sorted(found.items()) if set(pair) <= set(group) for place in where
            ]
            self.fail(
                f"{', '.join(group)} include each other. Fix: move what the lower one needs into it.\n"
                + "\n".join(places)
            )

    def test_direction(self) -> None:
        """No include against USES, and no folder that it does not know."""
        wrong = []
        for (first, second), places in sorted(edges().items()):
            unknown = [folder for folder in (first, second) if row(folder) not in USES]
            if unknown:
                wrong.append(f"{unknown[0]} has no row. Fix: add it to USES in {SELF.relative_to(ROOT)}.")
            elif row(second) not in may_include(row(first)):
                wrong.append(
                    f"{first} may not include {second}. Fix: move the code, or the direction in USES."
                )
            else:
                continue
            wrong += places
        self.assertFalse(wrong, "\n" + "\n".join(wrong))

    def test_table_has_no_circle(self) -> None:
        """USES is a direction, and each of its folders exists."""
        pairs = {(name, other) for name, others in USES.items() for other in others.split()}
        self.assertEqual(list(circles(pairs)), [])
        rows = {row(room(path)) for path in files() if path.suffix in CPP and path.parts[0] not in NO_SOURCES}
        self.assertEqual(rows, set(USES), "Fix: add the missing rows to USES, delete those without a folder")

    def test_circles_are_found(self) -> None:
        """The search itself."""
        self.assertEqual(list(circles({("a", "b"), ("b", "c"), ("c", "b"), ("c", "d")})), [["b", "c"]])
        self.assertEqual(list(circles({("a", "b"), ("b", "c"), ("a", "c")})), [])


class Files(unittest.TestCase):
    """Rules for each file."""

    def test_size(self) -> None:
        """A source that nobody reads in one go is two."""
        long = {
            str(path): lines
            for path in files()
            if path.suffix in CPP | {".py", ".sh", ".cmake"}
            and (lines := (ROOT / path).read_text(encoding="utf-8").count("\n")) > MOST_LINES
        }
        more = [
            f"{path}: {lines} lines, more than {MOST_LINES}"
            for path, lines in long.items()
            if path not in LONG
        ]
        self.assertFalse(more, "\nFix: split by topic:\n" + "\n".join(more))
        self.assertEqual(LONG - set(long), set(), "Fix: they are no longer long, strike them from LONG")

    def test_sources_are_formatted(self) -> None:
        """Sources are formatted as .clang-format says."""
        sources = [str(path) for path in files() if path.suffix in CPP]
        check = subprocess.run(
            ["clang-format", "--dry-run", "--Werror", *sources], cwd=ROOT, capture_output=True, text=True
        )
        self.assertEqual(check.returncode, 0, f"{check.stderr[-2000:]}\nFix: clang-format -i FILE")

    def test_pages_have_a_title(self) -> None:
        """A page that was formatted as if it were C++ has none."""
        missing = [
            str(path)
            for path in files()
            if path.suffix == ".md" and not (ROOT / path).read_text(encoding="utf-8").startswith("# ")
        ]
        self.assertFalse(missing, "Fix: a page begins with `# TITLE`")

    def test_pages_name_files(self) -> None:
        """A page beside sources has a table of files that are there; large folders have such a page."""
        for path in files():
            if path.suffix != ".md" or path.parts[0] in NO_SOURCES:
                continue
            text = (ROOT / path).read_text(encoding="utf-8")
            _, found, table = text.partition("| files | what is in them |\n|---|---|\n")
            for row_of_files in table.split("\n\n")[0].splitlines() if found else ():
                for name in re.findall(r"`([^`]+)`", row_of_files.split("|")[1]):
                    there = [*(ROOT / path.parent).glob(f"{name}.*"), *(ROOT / path.parent).glob(name)]
                    self.assertTrue(there, f"{path}: there is no {name}. Fix: say what is there now")
        sources = Counter(path.parent for path in files() if path.suffix == ".cpp")
        pages = {path.parent for path in files() if path.suffix == ".md"}
        missing = [
            str(folder)
            for folder, count in sources.items()
            if count >= LARGE and folder.parts[0] not in NO_SOURCES and folder not in pages
        ]
        self.assertEqual(
            set(missing), PAGELESS, "Fix: write what comes in, what goes out, and the way through"
        )

    def test_pages_are_run(self) -> None:
        """A test names each page of docs/ that shows programs or commands."""
        tests = "".join(
            (ROOT / path).read_text(encoding="utf-8")
            for path in files()
            if path.name in {"CMakeLists.txt", "test_docs.py"} and path.parts[0] == "tests"
        )
        missing = [
            str(path)
            for path in files()
            if path.suffix == ".md" and path.parts[0] == "docs" and path.parts[1] != "nem"
            if "\n```" in (ROOT / path).read_text(encoding="utf-8")
            if path.name not in tests and f'"{path.stem}"' not in tests
        ]
        self.assertFalse(missing, "Fix: add them to tests/docs/CMakeLists.txt")

    def test_rooms_of_the_compiler_are_small(self) -> None:
        """A folder has fewer than 25 sources of its own; the others are in sub-rooms by family."""
        most = 24
        count = Counter(
            path.parent for path in files() if path.suffix == ".cpp" and path.parts[0] == "compiler"
        )
        large = [f"{folder}: {number}" for folder, number in count.items() if number > most]
        self.assertFalse(large, f"more than {most} sources. Fix: move a family to a folder inside")

    def test_questions_have_their_places(self) -> None:
        """Each answer of docs/questions.md is in a file that names it."""
        rows = re.findall(
            r"^\| [^|]+\? \| `([^`]+)` \| `(\w+)` \|",
            (ROOT / "docs/questions.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        )
        self.assertGreaterEqual(len(rows), 20)
        for file, name in rows:
            text = (ROOT / file).read_text(encoding="utf-8") if (ROOT / file).is_file() else ""
            self.assertRegex(text, rf"\b{name}\b", f"{file} does not name {name}. Fix: say where it is now")

    def test_what_needs_packages_is_labelled(self) -> None:
        """Else the fast tests, which run without .venv, have it."""
        missing = [
            str(path)
            for path in files()
            if path.name == "CMakeLists.txt" and path.parts[0] == "tests"
            if "/.venv/" in (text := (ROOT / path).read_text(encoding="utf-8"))
            if "kpu_label(packages)" not in text and "LABELS packages" not in text
        ]
        self.assertFalse(missing, "Fix: end them with kpu_label(packages)")

    def test_no_file_names_a_machine(self) -> None:
        """No path of the machine that a file was written on."""
        folders = {str(ROOT), str(Path.home()), "/home", "/work", "/Users"} - {"/"}
        named = re.compile(rf"(?<![\w.}})/])(?:{'|'.join(map(re.escape, sorted(folders)))})/\w".encode())
        found = []
        for path in files():
            if path.parts[:2] == ("tests", "fuzz"):
                continue  # random bytes
            for number, line in enumerate((ROOT / path).read_bytes().splitlines(), 1):
                if match := named.search(line):
                    found.append(
                        f"{path}:{number}: {match.group().decode()}... Fix: name it relative to the file"
                    )
        self.assertFalse(found, "\n" + "\n".join(found))


if __name__ == "__main__":
    unittest.main()
