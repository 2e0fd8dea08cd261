"""The command ``kpusim sweep``."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kpusim.base.verbs import BAD_INPUT, INTERRUPTED, OK, exit_code
from kpusim.errors import UserError
from kpusim.sweeps.designs import Space, designs_of
from kpusim.sweeps.reading import read_spec, yaml_module
from kpusim.sweeps.results import SweepResults
from kpusim.sweeps.running import Status
from kpusim.sweeps.spec import Spec
from kpusim.sweeps.sweeping import sweep

USAGE = """\
kpusim sweep SPEC -o DIR            run the sweep that a YAML file states; the same command goes on with it
kpusim sweep [OPTIONS] -o DIR       the same, stated by options
kpusim sweep front DIR              the designs that no other one beats
kpusim sweep knobs DIR              which axis matters, where it stops to matter, and why
kpusim sweep show DIR N             run point N again, and explain it
kpusim sweep diff DIR N M           what differs between two points
kpusim sweep report DIR -o F.html   one page with all of it
kpusim sweep sql DIR QUERY          a query over the tables points and columns
kpusim sweep parquet DIR -o F       the table as a Parquet file"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code, as of ``kpusim``."""
    return exit_code(_run, arguments)


def _run(words: list[str]) -> int:
    actions = {
        "front": _front, "knobs": _knobs, "show": _show, "diff": _diff, "report": _report, "sql": _sql,
        "parquet": _parquet,
    }  # fmt: skip
    if words and words[0] in actions and not Path(words[0]).is_file():
        return actions[words[0]](words[1:])
    return _sweep(words)


class _Parser(argparse.ArgumentParser):
    """Errors as of the rest of the command."""

    def error(self, message: str) -> Any:
        raise UserError(f"{message}. Fix: see `kpusim sweep --help`.")


def _parser(name: str, meaning: str, *, folder: bool = True) -> _Parser:
    parser = _Parser(prog=f"kpusim sweep {name}".strip(), description=meaning, allow_abbrev=False)
    if folder:
        parser.add_argument("folder", metavar="DIR", help="folder of a sweep")
    return parser


# ---- running


def _sweep(words: list[str]) -> int:
    parser = _parser(
        "", "Run programs on many machines. docs/sweeps.md says what a sweep may state.", folder=False
    )
    parser.usage = "\n" + USAGE
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("spec", metavar="SPEC", nargs="?", help="YAML file that states the sweep")
    parser.add_argument("-o", dest="folder", metavar="DIR", help="where journal and table go")
    parser.add_argument("--workers", type=_count, metavar="N", help="processes; default: one a core")
    parser.add_argument(
        "--time-limit", type=_seconds, metavar="SECONDS", help="after which no further point begins"
    )
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="of Dask, whose workers evaluate the points: tcp://host:8786"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="list what would be run, and what it would take"
    )
    parser.add_argument("--quiet", action="store_true", help="no progress and no summary")
    stated = parser.add_argument_group("what SPEC states, or instead of it")
    stated.add_argument("--program", action="append", metavar="FILE", help="a program; may be given again")
    stated.add_argument(
        "--platform", action="append", metavar="NAME|FILE", help="a platform; may be given again"
    )
    stated.add_argument(
        "--axis", action="append", metavar="NAME=VALUES", help="8,16,32 or 512KiB..4MiB*2 or a formula"
    )
    stated.add_argument(
        "--option", action="append", metavar="NAME=VALUE", help="of the compiler: precision=int8"
    )
    stated.add_argument("--constraint", action="append", metavar="TEXT", help="'power.average_w < 2'")
    stated.add_argument(
        "--objective", action="append", metavar="NAME", help="a statistic to be small; -NAME: large"
    )
    stated.add_argument(
        "--sample", metavar="grid|KIND:N", help="random:100, lhs:100, sobol:128 or search:200"
    )
    for name in ("fidelity", "sampler", "combine", "mode", "inputs"):
        stated.add_argument(f"--{name}", metavar="WORD")
    for name in ("seed", "generation"):
        stated.add_argument(f"--{name}", type=_count, metavar="N")
    given = parser.parse_args(words)
    tree = _stated(given)
    if given.spec is None and "programs" not in tree:
        raise UserError(
            "no sweep is given. Fix: give a SPEC, or --program and --axis; see `kpusim sweep --help`."
        )
    spec = Path(given.spec) if given.spec else None
    if given.dry_run:
        return _dry_run(read_spec(spec, tree))
    if given.folder is None:
        raise UserError("-o is missing: where journal and table go. Fix: give -o DIR.")
    line = None if given.quiet or not sys.stderr.isatty() else _Line()
    try:
        results = sweep(
            spec, given.folder, workers=given.workers, time_limit=given.time_limit, scheduler=given.scheduler,
            progress=line, **tree,
        )  # fmt: skip
    except KeyboardInterrupt:
        print(f"\ninterrupted: {given.folder} has what was done; the same command goes on.", file=sys.stderr)
        return INTERRUPTED
    finally:
        if line is not None:
            line.close()
    if not given.quiet:
        print(summary(results), end="")
    return OK if any(not row["error"] for row in results.rows) or not results.rows else BAD_INPUT


def _count(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 2**32:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds")
    return value


def _stated(given: argparse.Namespace) -> dict[str, Any]:
    """Return what options state, as a sweep's file would."""
    tree: dict[str, Any] = {}
    if given.program:  # beside whoever gives the command, not beside SPEC
        tree["programs"] = [os.path.abspath(path) for path in given.program]
    for key in ("platform", "constraint", "objective"):
        if option := getattr(given, key):
            tree[f"{key}s"] = option
    if given.axis:
        tree["axes"] = {name: _values(text) for name, text in map(_pair, given.axis)}
    if given.option:
        tree["options"] = {name: _values(text) for name, text in map(_pair, given.option)}
    if given.sample:
        kind, _, count = given.sample.partition(":")
        tree["sample"] = kind if kind == "grid" else {kind: int(count) if count.isdigit() else count}
    for name in ("fidelity", "sampler", "combine", "mode", "inputs", "seed", "generation"):
        if (value := getattr(given, name)) is not None:
            tree[name] = value
    return tree


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name or not value:
        raise UserError(f"`{text}` is not NAME=VALUE. Fix: write such as engine.array.rows=8,16,32.")
    return name, value


def _values(text: str) -> Any:
    """Return a list where there are commas outside of brackets, as YAML reads its items."""
    yaml = yaml_module()
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append(text[start:index])
            start = index + 1
    items = []
    for part in [*parts, text[start:]]:
        try:
            item = yaml.safe_load(part)
        except yaml.YAMLError:
            item = part
        items.append(item if isinstance(item, (int, float, str, bool)) else part)
    return items if len(items) > 1 else items[0]


class _Line:
    """A line on standard error, written anew a few times a second."""

    def __init__(self) -> None:
        self._next, self._width = 0.0, 0

    def __call__(self, status: Status) -> None:
        if time.monotonic() < self._next and status.done < status.total:
            return
        self._next = time.monotonic() + 0.2
        text = f"{status.done:,} of {status.total:,} points {status.words}"
        if status.failed:
            text += f", {status.failed:,} failed"
        if status.left_s is not None and status.done < status.total:
            text += f", {_time(status.left_s)} left"
        self._width = max(self._width, len(text))
        print(f"\r{text:{self._width}}", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """Clear the line."""
        if self._width:
            print(f"\r{'':{self._width}}\r", end="", file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
    )


def _dry_run(spec: Spec) -> int:
    """Tell what a sweep would run, and the time of its first point on this machine."""
    from kpusim.sweeps.running import task_of
    from kpusim.sweeps.workers.evaluate import Evaluator

    space = Space(spec)
    if spec.sample == "search":
        designs, count = [space.design(0, 0)], min(spec.count, space.size)
    else:
        designs = designs_of(spec, space)
        count = len(designs)
    names = ", ".join(program.name for program in spec.programs)
    print(
        f"{count:,} designs of {space.size:,} combinations, {len(spec.programs)} programs ({names}): "
        f"{count * len(spec.programs):,} points"
    )
    for axis in spec.axes:
        print(f"  {axis.name}: {', '.join(map(str, axis.values))}")
    for item in spec.derived:
        print(f"  {item.kind.name} = {item.formula.text}")
    evaluate, seconds = Evaluator(), 0.0
    how = "simulate" if spec.fidelity == "simulate" else "estimate"
    for design in (
        designs[0],
        designs[-1],
    ):  # the first one reads the programs, the last one is what others take
        begun = time.perf_counter()
        for index in range(len(spec.programs)):
            outcome = evaluate(task_of(spec, design, index, how))  # type: ignore[arg-type]
            if outcome.error:
                print(f"  {spec.programs[index].name}: {outcome.error}")
        seconds = time.perf_counter() - begun
    print(f"a design takes about {seconds:.2f} s of a core, all of them {_time(seconds * count)} of one")
    return OK


# ---- results


def summary(results: SweepResults) -> str:
    """Return a few lines for a terminal: points, failures, notes, the best designs."""
    rows = results.rows
    failed = [row for row in rows if row["error"]]
    front = len({row["design"] for row in results.front()})
    text = f"{results.folder}: {len(rows):,} points, {len(failed):,} failed, {front:,} designs on the front\n"
    if not results.complete:
        text += "stopped by the time limit: the same command goes on\n"
    for note in results.notes:
        text += note + "\n"
    if failed:
        text += f"point {failed[0]['point']}: {failed[0]['error']}\n"
    if results.front():
        text += front_text(results)
    elif rows and len(failed) < len(rows):
        text += "no design keeps all constraints\n"
    return text


def front_text(results: SweepResults, count: int = 10) -> str:
    """Return the best designs as a table, balanced ones first."""
    names = ["point", "program", *results.axes, *(name.removeprefix("-") for name in results.objectives)]
    if len(results.header["sweep"]["platforms"]) > 1:
        names.insert(2, "platform")
    best = results.best(count)
    cells = [names] + [[_shown(row[name]) for name in names] for row in best]
    widths = [max(len(line[index]) for line in cells) for index in range(len(names))]
    lines = [
        "  ".join(f"{cell:>{width}}" for cell, width in zip(line, widths, strict=True)) for line in cells
    ]
    more = len(results.front()) - len(best)
    return (
        "\n".join(lines)
        + "\n"
        + (f"and {more:,} more: {results.folder}/table.csv, front = 1\n" if more > 0 else "")
    )


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _front(words: list[str]) -> int:
    parser = _parser("front", "The designs that no other one beats in every objective.")
    parser.add_argument("--top", type=_count, default=20, metavar="N", help="rows; default 20")
    given = parser.parse_args(words)
    results = SweepResults(given.folder)
    print(front_text(results, given.top) if results.front() else "no design keeps all constraints\n", end="")
    return OK


def _knobs(words: list[str]) -> int:
    from kpusim.sweeps.knobs import knobs_of

    parser = _parser("knobs", "Which axis matters, where it stops to matter, and why.")
    parser.add_argument("--of", metavar="NAME", help="a statistic; default: the objectives")
    given = parser.parse_args(words)
    results = SweepResults(given.folder)
    names = [given.of] if given.of else [name.removeprefix("-") for name in results.objectives]
    print("\n".join(str(knobs_of(results, name)) for name in names), end="")
    return OK


def _show(words: list[str]) -> int:
    parser = _parser("show", "Run a point again, alone, and explain it.")
    parser.add_argument("number", type=_number, metavar="N", help="of the point, as in table.csv")
    parser.add_argument("-o", dest="target", metavar="RUN", help="folder for the run, with its events")
    given = parser.parse_args(words)
    results = SweepResults(given.folder)
    point = results.point(given.number)
    print(f"{point.command()}\n")
    run = point.run(events=True)
    print(run.report())
    print(run.explain())
    if given.target:
        run.save(given.target)
        run.events.save(Path(given.target) / "events.kpuev")
    return OK


def _diff(words: list[str]) -> int:
    parser = _parser("diff", "What differs between two points, with schedules and critical paths.")
    parser.add_argument("a", type=_number, metavar="N")
    parser.add_argument("b", type=_number, metavar="M")
    given = parser.parse_args(words)
    print(SweepResults(given.folder).diff(given.a, given.b), end="")
    return OK


def _number(text: str) -> int:
    if not text.isdigit():
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of a point")
    return int(text)


def _report(words: list[str]) -> int:
    from kpusim.sweeps.report import write_report

    parser = _parser(
        "report", "One page with the table, the front, which knob matters, and the best points explained."
    )
    parser.add_argument("-o", dest="target", required=True, metavar="F.html")
    parser.add_argument("--force", action="store_true", help="replace the file")
    given = parser.parse_args(words)
    write_report(SweepResults(given.folder), Path(given.target), force=given.force)
    return OK


def _sql(words: list[str]) -> int:
    parser = _parser("sql", "A query in SQL over the tables points and columns, as comma-separated values.")
    parser.add_argument("query", metavar="QUERY")
    given = parser.parse_args(words)
    for row in SweepResults(given.folder).sql(given.query):
        print(",".join(map(str, row)))
    return OK


def _parquet(words: list[str]) -> int:
    parser = _parser("parquet", "The table as a Parquet file.")
    parser.add_argument("-o", dest="target", required=True, metavar="FILE")
    parser.add_argument("--force", action="store_true", help="replace the file")
    given = parser.parse_args(words)
    SweepResults(given.folder).write_parquet(given.target, force=given.force)
    return OK


if __name__ == "__main__":
    sys.exit(main())
