"""The Python package has a direction too: no module or room imports what imports it; rooms keep their size.

usage: test_python_rooms.py

A room is a folder of python/kpusim, or a module that stands beside the folders. Every import counts: also one
inside of a function, which would hide a circle, and one for types alone, as neither file can be read first.
"""

from __future__ import annotations

import ast
import unittest
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from test_structure import circles

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "python" / "kpusim"
MOST_SOURCES = 24
#: For types alone: an exception names what it carries, though the lowest room is that of exceptions.
CARRIED = {("kpusim.errors", "kpusim.run.run")}

Imports = dict[tuple[str, str], list[str]]


def modules(package: Path) -> dict[str, Path]:
    """Names and files of the modules; a package is its `__init__.py`."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = (package.name, *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def targets(node: ast.AST, package: str) -> Iterator[str]:
    """Return what a statement imports, as far as its words say: `from a import b` may be the module a.b."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        above = package.split(".")[: len(package.split(".")) + 1 - node.level] if node.level else []
        base = ".".join([*above, *filter(None, [node.module])])
        yield from (f"{base}.{alias.name}" for alias in node.names)


def imports(package: Path) -> Imports:
    """Pairs of modules, the first of which imports the second, with the places; without the extension."""
    known = modules(package)
    result: Imports = defaultdict(list)
    for module, path in known.items():
        own = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            for name in targets(node, own):
                if name.startswith(f"{package.name}._core"):
                    continue
                while name and name not in known:
                    name = name.rpartition(".")[0]
                if name and name != module:
                    place = f"{path.relative_to(package.parent)}:{getattr(node, 'lineno', 0)} imports {name}"
                    result[module, name].append(place)
    return result


def room(module: str) -> str:
    """The folder or module directly in the package; the package itself is above all."""
    return ".".join(module.split(".")[:2])


def told(found: Imports) -> list[str]:
    """Circles, with the imports that they consist of."""
    return [
        f"{', '.join(group)}: Fix: move what both need below them.\n" + "\n".join(places)
        for group in circles(set(found))
        for places in [
            [place for pair, at in sorted(found.items()) if set(pair) <= set(group) for place in at]
        ]
    ]


class Rooms(unittest.TestCase):
    """Rooms of the package as it is."""

    def setUp(self) -> None:
        """Imports without those that are carried; each of these is needed."""
        found = imports(PACKAGE)
        self.assertEqual(CARRIED - set(found), set(), "Fix: strike what is imported no longer from CARRIED.")
        self.found = {pair: places for pair, places in found.items() if pair not in CARRIED}
        self.assertGreater(len(self.found), 300)

    def test_modules_in_no_circle(self) -> None:
        """Whatever can be read alone can be changed alone."""
        self.assertEqual(told(self.found), [])

    def test_rooms_in_no_circle(self) -> None:
        """The package imports all rooms, and no room the package."""
        between: Imports = defaultdict(list)
        for (first, second), places in self.found.items():
            if room(first) != room(second):
                between[room(first), room(second)] += places
        self.assertEqual(told(between), [])

    def test_carried_for_types_alone(self) -> None:
        """Else the order in which modules are loaded depends on who is first."""
        for module, carried in CARRIED:
            tree = ast.parse(modules(PACKAGE)[module].read_text(encoding="utf-8"))
            plain = [name for node in tree.body for name in targets(node, module)]
            self.assertFalse([name for name in plain if name.startswith(carried)])

    def test_size(self) -> None:
        """A folder whose files are too many to know is split into folders."""
        for folder in {path.parent for path in modules(PACKAGE).values()}:
            count = len(list(folder.glob("*.py")))
            self.assertLessEqual(count, MOST_SOURCES, f"{folder}: Fix: give its parts folders of their own.")

    def test_few_beside_the_rooms(self) -> None:
        """Modules outside of folders are those that users import by name."""
        beside = {path.stem for path in PACKAGE.glob("*.py")}
        self.assertEqual(beside, {"__init__", "nem", "platform", "precision"}, "Fix: move it into a room.")


class Search(unittest.TestCase):
    """The reading itself, on a package that has every kind of import."""

    def test_kinds(self) -> None:
        """In a function, relative, of a package, for types."""
        texts = {
            "__init__.py": "from toy.a import f\n",
            "a.py": "def f():\n    from .b import g\n",
            "b.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import toy.c.d\n",
            "c/__init__.py": "",
            "c/d.py": "from toy import _core, a\nfrom .. import b\n",
        }
        with TemporaryDirectory() as name:
            for path, text in texts.items():
                (Path(name) / "toy" / path).parent.mkdir(parents=True, exist_ok=True)
                (Path(name) / "toy" / path).write_text(text)
            found = imports(Path(name) / "toy")
        pairs = {f"{first} {second}".replace("toy.", "") for first, second in found}
        self.assertEqual(pairs, {"toy a", "a b", "b c.d", "c.d a", "c.d b"})
        self.assertIn("toy.a, toy.b, toy.c.d", told(found)[0])


if __name__ == "__main__":
    unittest.main()
