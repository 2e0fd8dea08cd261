"""What an error advises works: each case makes a mistake, reads the fix, and does what it says."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kpusim
import numpy as np
import pytest
from conftest import RELU
from kpusim.nem import NemInterpreter

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(kpusim.__file__).parent
X = np.ones((4, 64), np.float16).reshape(-1)
LAYERS = str(ROOT / "examples" / "resnet18" / "resnet18.csv")


def simulation(**options: Any) -> kpusim.Simulation:  # noqa: ANN401
    """Of the program that tests share."""
    return kpusim.Simulation(kpusim.Program.parse(RELU), "swkpu-v1", **options)


def loaded() -> NemInterpreter:
    """An interpreter with the program."""
    interpreter = NemInterpreter()
    interpreter.load(RELU)
    return interpreter


def run(**options: Any) -> kpusim.Run:  # noqa: ANN401
    """A run with inputs."""
    return simulation(**options).run(fill="zeros")


Step = Callable[[], object]
#: The mistake, what the fix has to say, and what follows it.
CASES: list[tuple[str, Step, str, list[Step]]] = [
    ("run_without_inputs", lambda: simulation().run(), r"an array for each, or fill='zeros'",
     [lambda: simulation().run(fill="zeros")]),
    ("interpreter_without_inputs", lambda: loaded().run(), r"an array for each, or fill='zeros'",
     [lambda: loaded().run(fill="zeros"), lambda: loaded().run({"x": X})]),
    ("interpreter_without_program", lambda: NemInterpreter().run(), r"call load first",
     [lambda: loaded().run(fill=1)]),
    ("interpreter_name", lambda: loaded().inspect("z"), r"name one of .*\bx_l2\b",
     [lambda: loaded().inspect("x_l2")]),
    ("inputs", lambda: simulation().run(5), r"give a mapping of names to arrays",
     [lambda: simulation().set_inputs({"x": X})]),
    ("input_name", lambda: simulation().run({5: X}), r"give a mapping of names to arrays",
     [lambda: simulation().run({"x": X})]),
    ("fill", lambda: simulation().run(fill="ones"), r"'zeros', or a seed of 0 or more",
     [lambda: simulation().run(fill="zeros"), lambda: simulation().run(fill=0)]),
    ("step", lambda: simulation(mode="timing").step(-1), r"an integer, 0 or more",
     [lambda: simulation(mode="timing").step(0)]),
    ("mode", lambda: simulation(mode="fast"), r"one of values\+timing, timing, functional",
     [lambda: simulation(mode="values+timing"), lambda: simulation(mode="functional")]),
    ("order_with_time", lambda: simulation(order=3), r"leave it out", [simulation]),
    ("order", lambda: simulation(mode="functional", order="x"), r"'program', or a seed of 0 or more",
     [lambda: simulation(mode="functional", order=0)]),
    ("engine", lambda: simulation(engine="slow"), r"'fast', 'reference'",
     [lambda: simulation(engine="fast"), lambda: simulation(engine="reference")]),
    ("events", lambda: simulation(events="all"), r"True, False or 'accesses'",
     [lambda: simulation(events=True), lambda: simulation(events="accesses")]),
    ("events_without_time", lambda: simulation(mode="functional", events=True), r"leave out events",
     [lambda: simulation(mode="functional")]),
    ("params", lambda: simulation(params=5), r"give params=\{'T': 8\}", [lambda: simulation(params={})]),
    ("max_cycles", lambda: simulation(max_cycles=-1), r"an integer, 0 or more, or None",
     [lambda: simulation(max_cycles=0), lambda: simulation(max_cycles=None)]),
    ("limit", lambda: run(max_cycles=10), r"raise max_cycles", [lambda: run(max_cycles=10**6)]),
    ("strict", lambda: simulation(strict=5), r"give one of them", [lambda: simulation(strict=True)]),
    ("timeout", lambda: simulation().run(fill=1, timeout=-1), r"a positive number of seconds, or None",
     [lambda: simulation().run(fill=1, timeout=60.0), lambda: simulation().run(fill=1, timeout=None)]),
    ("progress", lambda: simulation().run(fill=1, progress=5), r"True, or a function of cycle and tasks",
     [lambda: simulation().run(fill=1, progress=lambda cycle, tasks: None)]),
    ("plot", lambda: run().plot("pie"), r"one of units", [lambda: run().plot("units")]),
    ("table", lambda: run().to_pandas("rows"), r"one of ops", [lambda: run().to_pandas("ops")]),
    ("bins", lambda: run(events=True).events.power(0), r"a positive number",
     [lambda: run(events=True).events.power(100)]),
    ("path", lambda: kpusim.load(5), r"a str or a pathlib\.Path", [lambda: kpusim.load(Path(LAYERS))]),
    ("folders", lambda: kpusim.load(LAYERS, search_paths="x"), r"a list of paths",
     [lambda: kpusim.load(LAYERS, search_paths=["."])]),
    ("program", lambda: kpusim.Program.of(5), r"NEM text",
     [lambda: kpusim.Program.of(RELU), lambda: kpusim.Program.of(RELU.encode())]),
    ("option", lambda: kpusim.simulate(RELU, "swkpu-v1", clock=800), r"clock\.core_mhz': 800",
     [lambda: kpusim.simulate(RELU, "swkpu-v1", fill=1, **{"clock.core_mhz": 800})]),
    ("option_of_layers", lambda: kpusim.load(LAYERS, shape=3), r"there are ", []),
    ("values_of_layers", lambda: kpusim.Simulation(kpusim.load(LAYERS), "tile32", mode="functional"),
     r"leave out mode",
     [lambda: kpusim.Simulation(kpusim.load(LAYERS), "tile32")]),
    ("diff", lambda: kpusim.diff(run(), run(), threshold=-1), r"give such numbers",
     [lambda: kpusim.diff(run(), run(), top=0, threshold=0)]),
    ("masked", lambda: simulation().run({"x": np.ma.masked_array(X, mask=X > 0)}), r"\.filled\(0\)",
     [lambda: simulation().run({"x": np.ma.masked_array(X, mask=X > 0).filled(0)})]),
    ("functional_trace", lambda: run(mode="functional").events, r"mode values\+timing or timing",
     [lambda: run(mode="values+timing", events=True).events, lambda: run(mode="timing", events=True).events]),
    ("functional_plot", lambda: run(mode="functional").plot(), r"mode values\+timing or timing",
     [lambda: run(mode="values+timing").plot()]),
    ("overrides", lambda: kpusim.simulate(RELU, fill=1, **{"clock.core_mhz": 800}), r"give one",
     [lambda: kpusim.simulate(RELU, "tile32", fill=1, **{"clock.core_mhz": 800})]),
]  # fmt: skip


@pytest.mark.parametrize("name", [case[0] for case in CASES])
def test_fix(name: str) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    _, mistake, advice, followed = next(case for case in CASES if case[0] == name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(kpusim.KpusimError) as caught:
            mistake()
        assert re.search(advice, caught.value.fix, re.DOTALL), str(caught.value)
        for step in followed:
            step()


def texts_with_fix() -> list[tuple[str, str]]:
    """Each literal of the package that has a fix, with the file and line that it stands in."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
                text = "".join(map(str, parts))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                text = node.value
            else:
                continue
            if "Fix: " in text:
                found.append((f"{path.relative_to(PACKAGE)}:{node.lineno}", text.rpartition("Fix: ")[2]))
    return found


def exists(name: str) -> bool:
    """Whether a dotted name can be reached."""
    import importlib

    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            value: Any = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


def keywords() -> set[str]:
    """Names of all parameters of the package's functions, and options of its front ends."""
    names = {option.name for front_end in kpusim.front_ends() for option in front_end.options}
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                names |= {arg.arg for arg in [*node.args.args, *node.args.kwonlyargs]}
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
    return names


def test_fixes_name_what_exists() -> None:
    """Functions, modules and keywords that any fix of the package names."""
    known = keywords()
    fixes = texts_with_fix()
    assert len(fixes) > 100
    for place, fix in fixes:
        for name in re.findall(r"\bkpusim(?:\.\w+)+", fix):
            assert exists(name), f"{place}: {name} does not exist"
        for name in re.findall(r"(?<![\w.'{])([a-z_]+)=(?!=)", fix):
            assert name in known, f"{place}: {name}= is no keyword"
        for name in re.findall(r"docs/\w+\.md", fix):
            assert (ROOT / name).is_file(), f"{place}: {name} does not exist"
