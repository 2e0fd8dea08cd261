"""The command ``kpusim reduce``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from kpusim.base.verbs import OK, exit_code
from kpusim.errors import UserError
from kpusim.reduce.reducing import Reduced, reduce


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code, as of ``kpusim``."""
    return exit_code(_run, arguments)


class _Parser(argparse.ArgumentParser):
    """Errors as of the rest of the command."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. Fix: see `kpusim reduce --help`.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="kpusim reduce", allow_abbrev=False, usage="kpusim reduce MODEL -o FILE [OPTIONS] -- COMMAND",
        description="Cut a network down to the least on which COMMAND, with {} for its path, still exits "
        "with another code than 0. docs/graph_text.md shows one.",
    )  # fmt: skip
    parser.add_argument("model", metavar="MODEL", help="an ONNX model, or the text of a graph")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help="where what is left goes")
    parser.add_argument("--match", metavar="TEXT", help="what COMMAND must print to fail in this way")
    parser.add_argument("--time", type=_seconds, metavar="SECONDS", help="then write the least so far")
    parser.add_argument(
        "--run-time", type=_seconds, default=60.0, metavar="SECONDS", help="of one run; default 60"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE")
    parser.add_argument("--quiet", action="store_true", help="no report")
    return parser


def _run(words: list[str]) -> int:
    own, command = (
        (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    )
    given = _parser().parse_args(own)
    if not command:
        raise UserError("no command is given. Fix: write it after --, with {} for the network.")
    target = Path(given.output)
    if os.path.exists(target) and not given.force:
        raise UserError(f"{target}: is there. Fix: `kpusim reduce --force`, or give another name.")
    shown = not given.quiet and sys.stderr.isatty()

    def progress(nodes: int, runs: int) -> None:
        print(f"\r{nodes} nodes left, {runs} runs   ", end="", file=sys.stderr, flush=True)

    found = reduce(
        given.model, command, match=given.match, time_limit=given.time, run_time=given.run_time,
        progress=progress if shown else None,
    )  # fmt: skip
    if shown:
        print("\r" + " " * 40 + "\r", end="", file=sys.stderr, flush=True)
    try:
        found.network.write(target)
    except OSError as error:
        raise UserError(f"{target}: {error.strerror}. Fix: give a name that can be written.") from None
    if not given.quiet:
        print(text_of(found, given.output), end="")
    return OK


def text_of(found: Reduced, path: str) -> str:
    """Return the report."""
    lines = [f"before: {found.before}", f"after:  {found.after}"]
    lines += [f"left out: {what}" for what in found.cuts]
    if not found.complete:
        lines.append("note: the time was over; less may do.")
    return "\n".join([*lines, f"{path}: written after {found.runs} runs", ""])


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"`{text}` is not a number of seconds")
    return value


if __name__ == "__main__":
    sys.exit(main())
