"""Sweeps from YAML files: every mistake has its file, line and column."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kpusim.errors import MissingPackageError, UserError
from kpusim.sweeps.designs import check_designs
from kpusim.sweeps.spec import Place, Reader, Spec, SpecError

LARGEST = 1 << 20  #: bytes of a sweep's file
_Marks = dict[Place, tuple[int, int]]


def yaml_module() -> Any:
    """PyYAML; an error that installs it where it is missing."""
    try:
        import yaml
    except ImportError:
        raise MissingPackageError("sweeps need PyYAML. Fix: pip install 'kpusim[sweep]'.") from None
    return yaml


def read_spec(path: Path | None, stated: Mapping[str, Any] | None = None) -> Spec:
    """A sweep from a file, whose programs are beside it; keys of `stated` replace those of the file."""
    marks: _Marks = {}
    tree = {} if path is None else _tree_of(path, marks)
    folder = Path() if path is None else path.parent
    for key, value in (stated or {}).items():
        tree[key] = value
        for where in [where for where in marks if where[:1] == (key,)]:
            del marks[where]
        marks[key,] = (0, 0)  # of no line
    try:
        spec = Reader(tree, folder).read()
        check_designs(spec)
        return spec
    except SpecError as error:
        place = _place(path, error.where, marks)
        raise UserError(f"{place}: error: {error}" if place else str(error)) from None


def _tree_of(path: Path, marks: _Marks) -> dict[str, Any]:
    """Read what a file states, and where each part stands."""
    yaml = yaml_module()
    try:
        if path.stat().st_size > LARGEST:
            raise UserError(f"{path}: a sweep has at most {LARGEST} bytes. Fix: use ranges instead of lists.")
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}. Fix: give the file of a sweep.") from None
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text. Fix: give the file of a sweep.") from None
    try:
        node = yaml.compose(text, yaml.SafeLoader)
        _note(node, (), marks, path, yaml, 0)
        tree = yaml.safe_load(text)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UserError(
            f"{place}: error: {problem}. Fix: write YAML: keys with values, lists in [ ]."
        ) from None
    except (RecursionError, ValueError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{path}: {error}. Fix: write keys with values.") from None
    if not isinstance(tree, dict):
        raise UserError(
            f"{path}:1:1: error: this is not a sweep. Fix: write keys such as programs:, platforms:, axes:."
        )
    return tree


def _note(node: Any, where: Place, marks: _Marks, path: Path, yaml: Any, depth: int) -> None:
    """Remembers where each key and item stands; the same key twice is an error."""
    if node is None:
        return
    if depth > 20:
        raise UserError(
            f"{path}:{node.start_mark.line + 1}: error: this is nested too deeply. Fix: write keys with "
            f"values."
        )
    marks.setdefault(where, (node.start_mark.line + 1, node.start_mark.column + 1))
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            inner = (*where, str(key.value))
            place = (key.start_mark.line + 1, key.start_mark.column + 1)
            if inner in marks:
                raise UserError(
                    f"{path}:{place[0]}:{place[1]}: error: `{key.value}` stands twice. Fix: state it once."
                )
            marks[inner] = place
            _note(value, inner, marks, path, yaml, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            _note(item, (*where, index), marks, path, yaml, depth + 1)


def _place(path: Path | None, where: Place, marks: _Marks) -> str:
    """File, line and column of the nearest part that stands in the file; of what a call states, its keys."""
    for length in range(len(where), -1, -1):
        found = marks.get(where[:length])
        if found is not None and found != (0, 0):
            return f"{path}:{found[0]}:{found[1]}"
        if found is not None:
            return str(where[0]) + "".join(f"[{part!r}]" for part in where[1:])
    return f"{path}:1:1" if path else ""
