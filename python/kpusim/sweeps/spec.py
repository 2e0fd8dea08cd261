"""Specification of a sweep: programs, machines, axes, questions. A mistake is one error with its place."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform
from kpusim.sweeps import options
from kpusim.sweeps.axes import (
    OPTION,
    PARAM,
    Axis,
    Derived,
    axis_of,
    in_order,
    kind_of,
    units_of_numbers,
    unknown,
)
from kpusim.sweeps.constraints import Constraint, Names, check_together

Fidelity = Literal["simulate", "estimate", "auto"]
FIDELITIES = ("simulate", "estimate", "auto")
COMBINES = ("geomean", "sum", "max")
SAMPLES = ("grid", "random", "lhs", "sobol", "search")
SAMPLERS = ("nsga2", "tpe", "random")
MODES = ("timing", "values+timing")
KEYS = (
    "programs", "platforms", "axes", "options", "constraints", "objectives", "combine", "sample", "sampler",
    "fidelity", "seed", "generation", "mode", "inputs", "timeout",
)  # fmt: skip
FIELDS_OF_PROGRAM = ("file", "name", "options", "params")

CHECKED = 64  #: values of an axis whose ranges are checked before anything runs, evenly chosen
Place = tuple[str | int, ...]  #: keys that lead to a part of a sweep


class SpecError(UserError):
    """A mistake in a sweep, with the keys that lead to it; whoever read a file adds line and column."""

    def __init__(self, where: Place, text: str) -> None:
        super().__init__(text)
        self.where = where


@dataclass(frozen=True)
class ProgramSpec:
    """A program of a sweep.

    Attributes
    ----------
    name : str
        Of its rows.
    path : str
        The file.
    digest : str
        SHA-256 of the file, and of the files beside it that it names.
    options : mapping
        Of its front end, beyond those of the sweep.
    params : mapping
        Parameters of the program.
    """

    name: str
    path: str
    digest: str
    options: Mapping[str, OverrideValue]
    params: Mapping[str, int]


@dataclass(frozen=True)
class Objective:
    """A statistic that is to be small, or, `largest`, large."""

    name: str
    largest: bool = False


@dataclass(frozen=True)
class Spec:
    """A sweep, checked. The attributes are the keys of a sweep's file (docs/sweeps.md)."""

    programs: tuple[ProgramSpec, ...]
    platforms: tuple[str, ...]
    axes: tuple[Axis, ...]
    derived: tuple[Derived, ...]
    options: Mapping[str, OverrideValue]
    constraints: tuple[Constraint, ...]
    objectives: tuple[Objective, ...]
    combine: str
    sample: str
    count: int  #: designs of a sample; 0: of a grid, all
    sampler: str
    fidelity: Fidelity
    seed: int
    generation: int
    mode: str
    inputs: str
    timeout: float | None
    platform_sources: Mapping[str, str]  #: by name as in `platforms`: a shipped name, or the path of a file
    platform_texts: Mapping[str, str]  #: the same, resolved
    files: Mapping[str, str]  #: paths of what options name, by what the sweep states
    stats: Mapping[str, str]  #: units of all statistics that these platforms give, by key

    def canonical(self) -> dict[str, Any]:
        """Return all that decides the results, for comparison: content instead of paths."""
        return {
            "programs": [
                {"name": p.name, "content": p.digest, "options": dict(p.options), "params": dict(p.params)}
                for p in self.programs
            ],
            "platforms": {name: digest_of(text.encode()) for name, text in self.platform_texts.items()},
            "axes": {axis.name: list(axis.values) for axis in self.axes}
            | {item.kind.name: item.formula.text for item in self.derived},
            "files": {stated: options.content_digest(Path(path)) for stated, path in self.files.items()},
            "constraints": [item.formula.text for item in self.constraints],
            "objectives": [("-" if item.largest else "") + item.name for item in self.objectives],
        } | {
            name: getattr(self, name)
            for name in ("options", "combine", "sample", "count", "sampler", "fidelity", "seed", "generation",
                         "mode", "inputs", "timeout")
        }  # fmt: skip


def digest_of(content: bytes) -> str:
    """SHA-256 as hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def text_digest(content: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    return digest_of(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def files_of(path: Path) -> list[Path]:
    """Return a file and those beside it whose names stand in it: includes, external data."""
    content = path.read_bytes()
    others = (other for other in sorted(path.parent.iterdir()) if other != path and other.is_file())
    return [path, *(other for other in others if len(other.name) > 2 and os.fsencode(other.name) in content)]


def file_digest(path: Path) -> str:
    """SHA-256 over the names and contents of ``files_of``, but for the first one's name."""
    digest = hashlib.sha256()
    for index, file in enumerate(files_of(path)):
        digest.update(file.name.encode() if index else b"")
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return digest.hexdigest()


class Reader:
    """Makes a Spec of the tree that a file, or a call, states it as."""

    def __init__(self, tree: Mapping[str, Any], folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        self.files: dict[str, str] = {}

    def read(self) -> Spec:
        """Return the sweep; a SpecError for the first mistake."""
        self._check_keys(self.tree, KEYS, ())
        platforms = self._platforms()
        given = self._options(("options",), self.tree.get("options", {}))
        sample, count = self._sample()
        axes, derived = self._axes(given)
        stats = {key: unit for platform in platforms.values() for key, unit, *_ in platform._core.stats()}
        names = Names(stats, tuple(axis.name for axis in axes) + tuple(item.kind.name for item in derived))
        fidelity = self._choice("fidelity", FIDELITIES, "simulate")
        spec = Spec(
            programs=self._programs(),
            platforms=tuple(platforms),
            axes=axes,
            derived=derived,
            options=given,
            constraints=self._constraints(names),
            objectives=self._objectives(names),
            combine=self._choice("combine", COMBINES, "geomean"),
            sample=sample,
            count=count,
            sampler=self._choice("sampler", SAMPLERS, "nsga2"),
            fidelity=cast(Fidelity, fidelity),
            seed=self._whole("seed", 0, 1),
            generation=self._whole("generation", 1, 32),
            mode=self._choice("mode", MODES, "timing"),
            inputs=self._inputs(),
            timeout=self._timeout(),
            platform_sources={name: platform.source for name, platform in platforms.items()},
            platform_texts={name: platform.text() for name, platform in platforms.items()},
            files=self.files,
            stats=stats,
        )
        self._check_ranges(axes, platforms)
        return spec

    # ---- parts

    def _platforms(self) -> dict[str, Platform]:
        loaded: dict[str, Platform] = {}
        for index, name in enumerate(self._list("platforms", self.tree.get("platforms", ["swkpu-v1"]))):
            with at("platforms", index):
                if not isinstance(name, (str, os.PathLike)):
                    raise UserError(f"`{name}` is not a platform. Fix: give a name or a file.")
                text = os.fspath(name)
                if text in loaded:
                    raise UserError(f"platform `{text}` stands twice. Fix: give it once.")
                beside = self.folder / text
                shipped = text in Platform.names() or not beside.is_file()
                loaded[text] = Platform.load(text if shipped else beside)
        return loaded

    def _programs(self) -> tuple[ProgramSpec, ...]:
        found: dict[str, ProgramSpec] = {}
        for index, entry in enumerate(self._list("programs", self.tree.get("programs"))):
            with at("programs", index):
                program = self._program(entry, ("programs", index))
                if program.name in found:
                    raise UserError(
                        f"two programs are called `{program.name}`. Fix: give one of them another `name`."
                    )
                found[program.name] = program
        return tuple(found.values())

    def _program(self, entry: object, where: Place) -> ProgramSpec:
        fields = {"file": entry} if isinstance(entry, (str, os.PathLike)) else entry
        if not isinstance(fields, Mapping) or not isinstance(fields.get("file"), (str, os.PathLike)):
            raise UserError("a program needs a file. Fix: write `- file: model.onnx`.")
        self._check_keys(fields, FIELDS_OF_PROGRAM, where)
        path = self.folder / os.fspath(fields["file"])
        if not path.is_file():
            raise UserError(
                f"there is no file `{path}`. Fix: check the path, which begins at the sweep's file."
            )
        params: dict[str, int] = {}
        stated = fields.get("params", {})
        if not isinstance(stated, Mapping):
            raise SpecError((*where, "params"), "params are names with values. Fix: write `n: 4`.")
        for name, value in stated.items():
            if isinstance(value, bool) or not isinstance(value, int):
                here = (*where, "params", str(name))
                raise SpecError(here, f"`{value}` is not a value of `{name}`. Fix: give a whole number.")
            params[str(name)] = value
        own = self._options((*where, "options"), fields.get("options", {}))
        name = str(fields.get("name", path.stem))
        return ProgramSpec(name, os.fspath(path), file_digest(path), own, params)

    def _axes(self, given: Mapping[str, OverrideValue]) -> tuple[tuple[Axis, ...], tuple[Derived, ...]]:
        stated = self.tree.get("axes", {})
        if not isinstance(stated, Mapping):
            raise SpecError(
                ("axes",), "axes are names with values. Fix: write `l2.size_bytes: [1MiB, 2MiB]`."
            )
        axes: list[Axis] = []
        derived: list[Derived] = []
        for name, written in stated.items():
            with at("axes", str(name)):
                item = axis_of(str(name), written)
                if isinstance(item, Derived):
                    derived.append(item)
                    continue
                if item.name.startswith(OPTION):
                    if item.name.removeprefix(OPTION) in given:
                        raise UserError(f"`{item.name}` is among the options too. Fix: state it once.")
                    for value in item.values:
                        self._note_file(item.name, value)
                axes.append(item)
        return tuple(axes), self._in_order(axes, derived)

    def _in_order(self, axes: Sequence[Axis], derived: Sequence[Derived]) -> tuple[Derived, ...]:
        """Sort values that follow from others, each after those that it needs."""
        numbers = units_of_numbers().keys() | {axis.name for axis in axes}
        for item in derived:
            with at("axes", item.kind.name):
                for name in sorted(item.formula.names - numbers):
                    raise UserError(unknown("parameter of platforms", name, numbers))
                if item.formula.compares:
                    raise UserError(f"`{item.formula.text}` is true or false. Fix: give a number.")
        if not derived:
            return ()
        with at("axes", derived[0].kind.name):
            return tuple(in_order(derived))

    def _options(self, where: Place, stated: object) -> dict[str, OverrideValue]:
        if not isinstance(stated, Mapping):
            raise SpecError(where, "options are names with values. Fix: write `precision: int8`.")
        found: dict[str, OverrideValue] = {}
        for name, value in stated.items():
            with at(*where, str(name)):
                kind = kind_of(OPTION + str(name))
                if isinstance(value, (list, tuple)):
                    raise UserError(f"`{name}` has several values. Fix: put it under axes, as `{kind.name}`.")
                self._note_file(kind.name, value)
                found[kind.name.removeprefix(OPTION)] = value
        return found

    def _note_file(self, axis: str, value: object) -> None:
        """Remembers where the file lies that an option names."""
        name = axis.removeprefix(OPTION)
        options.check(name)
        if (path := options.file_of(name, value, self.folder)) is not None:
            self.files[str(value)] = os.path.abspath(path)

    def _constraints(self, names: Names) -> tuple[Constraint, ...]:
        found: list[Constraint] = []
        stated = self._list("constraints", self.tree.get("constraints", []), may_be_empty=True)
        for index, text in enumerate(stated):
            with at("constraints", index):
                found.append(Constraint.parse(str(text), names))
                check_together(found)
        return tuple(found)

    def _objectives(self, names: Names) -> tuple[Objective, ...]:
        # energy is not modelled where the platform is beyond its table
        default = [name for name in ("time.total_us", "energy.total_uj") if name in names.stats]
        found: list[Objective] = []
        for index, text in enumerate(self._list("objectives", self.tree.get("objectives", default))):
            with at("objectives", index):
                plain = str(text).strip()
                name = plain.removeprefix("-").strip()
                names.check(name, "statistic")
                if any(item.name == name for item in found):
                    raise UserError(f"objective `{name}` stands twice. Fix: give it once.")
                found.append(Objective(name, plain.startswith("-")))
        return tuple(found)

    def _sample(self) -> tuple[str, int]:
        stated = self.tree.get("sample", "grid")
        if stated == "grid":
            return "grid", 0
        fix = f"Fix: give grid, or one of {', '.join(SAMPLES[1:])} with a number: {{lhs: 100}}."
        if not isinstance(stated, Mapping) or len(stated) != 1:
            raise SpecError(("sample",), f"`{stated}` is not a sample. {fix}")
        ((kind, count),) = stated.items()
        if kind not in SAMPLES[1:]:
            raise SpecError(("sample",), f"there is no sample `{kind}`. {fix}")
        if isinstance(count, bool) or not isinstance(count, int) or count < 1:
            raise SpecError(
                ("sample", kind), f"`{count}` is not a number of designs. Fix: give a whole one, 1 or more."
            )
        return str(kind), count

    def _inputs(self) -> str:
        stated = str(self.tree.get("inputs", "random:1"))
        kind, _, seed = stated.partition(":")
        if stated != "zeros" and (kind != "random" or not seed.isdigit()):
            raise SpecError(
                ("inputs",), f"`{stated}` is neither zeros nor random:SEED. Fix: give one of them."
            )
        return stated

    def _timeout(self) -> float | None:
        stated = self.tree.get("timeout")
        if stated is None:
            return None
        if isinstance(stated, bool) or not isinstance(stated, (int, float)) or not 0 < stated < 1e9:
            raise SpecError(
                ("timeout",), f"`{stated}` is not a time. Fix: give seconds of one point, above 0."
            )
        return float(stated)

    # ---- the whole

    def _check_ranges(self, axes: Sequence[Axis], platforms: Mapping[str, Platform]) -> None:
        """Values that a platform's rules refuse, whatever the other axes are."""
        for axis in axes:
            if axis.name.startswith((OPTION, PARAM)):
                continue
            step = max(1, len(axis.values) // CHECKED)
            for value in {*axis.values[::step], axis.values[-1]}:
                with at("axes", axis.name):
                    check_range(next(iter(platforms.values())), axis.name, value)

    def _list(self, key: str, stated: object, *, may_be_empty: bool = False) -> Sequence[Any]:
        if stated is None:
            raise SpecError((), f"the sweep has no `{key}`. Fix: add them.")
        items = list(stated) if isinstance(stated, (list, tuple)) else [stated]
        if not items and not may_be_empty:
            raise SpecError((key,), f"`{key}` is empty. Fix: give at least one.")
        return items

    def _choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self.tree.get(key, default)
        if value not in choices:
            raise SpecError((key,), f"there is no {key} `{value}`. Fix: give one of {', '.join(choices)}.")
        return str(value)

    def _whole(self, key: str, least: int, default: int) -> int:
        value = self.tree.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 2**32:
            raise SpecError(
                (key,), f"{key} `{value}`: a whole number, {least} or more, is needed. Fix: give one."
            )
        return int(value)

    def _check_keys(self, tree: Mapping[Any, Any], known: Sequence[str], where: Place) -> None:
        for key in tree:
            if key not in known:
                raise SpecError(
                    (*where, str(key)), unknown("key", str(key), known, f"there are {', '.join(known)}.")
                )


def check_range(platform: Platform, name: str, value: OverrideValue) -> None:
    """A UserError for a value out of its parameter's own range. Other rules may hold with other axes."""
    try:
        platform.with_(**{name: value})
    except UserError as error:
        if "it must be" in error.message:
            raise


@contextmanager
def at(*where: str | int) -> Iterator[None]:
    """Errors inside get this place."""
    try:
        yield
    except SpecError:
        raise
    except UserError as error:
        raise SpecError(where, str(error)) from None


def changes_between(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List what differs between two sweeps, by key."""
    return [key for key in sorted({*old, *new}) if json.dumps(old.get(key)) != json.dumps(new.get(key))]
