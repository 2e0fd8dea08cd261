"""The command ``kpusim calibrate``."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from kpusim.base.verbs import MISMATCH, OK, exit_code
from kpusim.calibrate.calibrating import calibrate, check
from kpusim.calibrate.parameters import bound_of
from kpusim.calibrate.report import check_json, check_text, json_of, text_of
from kpusim.calibrate.written import MARK, platform_text
from kpusim.errors import UserError
from kpusim.llm.composing import overrides_of


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code, as of ``kpusim``."""
    return exit_code(_run, arguments)


class _Parser(argparse.ArgumentParser):
    """Errors as of the rest of the command."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message}. Fix: see `kpusim calibrate --help`.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="kpusim calibrate", allow_abbrev=False,
        description="Fit parameters of a platform to measured times. docs/calibration.md has the columns.",
    )  # fmt: skip
    add = parser.add_argument
    add("measured", metavar="MEASURED.csv", help="what ran, and how long it took, a row each")
    add("--platform", required=True, metavar="NAME|FILE", help="the platform as it is")
    add("--fit", action="append", default=[], metavar="NAME,...", help="parameters to fit, as --set has them")
    add("--bound", action="append", default=[], metavar="NAME=LO:HI", help="range of one; again for others")
    add("--set", action="append", default=[], metavar="NAME=VALUE", help="a parameter to change before")
    add(
        "--hold-out", metavar="size|type|class|SHARE",
        help="rows that the fit does not see: the longest quarter, each type or class in turn, or a share",
    )  # fmt: skip
    add("--seed", type=int, default=0, metavar="N", help="of the rows that a share holds out; default 0")
    add("--keep-outliers", action="store_true", help="fit rows too that are far from all others")
    add("-o", "--output", metavar="FILE.textproto", help="where the fitted platform goes")
    add("--force", action="store_true", help="replace a platform of this command that is there")
    add("--check", action="store_true", help="fit nothing: exit 3 if the mean error is above the stated one")
    add("--max-error", type=_share, metavar="SHARE%", help="of --check: the bound, such as 5%%")
    add("--workers", type=_count, metavar="N", help="processes; default: one a core")
    told = parser.add_mutually_exclusive_group()
    told.add_argument("--json", action="store_true", help="all of it as JSON, instead of the report")
    told.add_argument("--quiet", action="store_true", help="no report")
    return parser


def _run(words: list[str]) -> int:
    given = _parser().parse_args(words)
    line = None if given.quiet or not sys.stderr.isatty() else _Line()
    try:
        return (_checked if given.check else _fitted)(given, words, line)
    finally:
        if line is not None:
            line.close()


def _checked(given: argparse.Namespace, _: list[str], line: _Line | None) -> int:
    if given.fit or given.output:
        raise UserError("--check fits nothing. Fix: leave out --fit and -o.")
    found = check(
        given.measured, given.platform, max_error=given.max_error, workers=given.workers,
        sets=overrides_of(given.set), progress=line,
    )  # fmt: skip
    if line is not None:
        line.close()
    if not given.quiet:
        print(check_json(found) if given.json else check_text(given.platform, found), end="")
    return OK if found.passed else MISMATCH


def _fitted(given: argparse.Namespace, words: list[str], line: _Line | None) -> int:
    if given.max_error is not None:
        raise UserError("--max-error is of --check. Fix: add --check, or leave it out.")
    target = None if given.output is None else Path(given.output)
    if target is not None:
        _check_free(target, given.force)
    found = calibrate(
        given.measured, given.platform, [name for text in given.fit for name in text.split(",") if name],
        bounds=dict(map(bound_of, given.bound)), hold_out=given.hold_out, sets=overrides_of(given.set),
        keep_outliers=given.keep_outliers, seed=given.seed, workers=given.workers, progress=line,
    )  # fmt: skip
    if line is not None:
        line.close()
    if target is not None:
        try:
            text = platform_text(found, target, shlex.join(["kpusim", "calibrate", *words]), _date())
            target.write_text(text, encoding="utf-8")
        except OSError as error:
            raise UserError(f"{target}: {error.strerror}. Fix: give a name that can be written.") from None
    if not given.quiet:
        print(json_of(found) if given.json else text_of(found), end="")
        sys.stdout.flush()
    return OK


def _check_free(target: Path, force: bool) -> None:
    if target.suffix != ".textproto":
        raise UserError(f"{target}: a platform's file ends in .textproto. Fix: give such a name.")
    if not target.absolute().parent.is_dir():
        raise UserError(f"{target}: there is no such folder. Fix: make it.")
    if not os.path.exists(target):
        return
    ours = target.is_file() and target.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    if not ours:
        raise UserError(f"{target}: is there, and not of this command. Fix: give another name.")
    if not force:
        raise UserError(f"{target}: is there. Fix: `kpusim calibrate --force`, or give another name.")


def _date() -> str:
    stated = os.environ.get("SOURCE_DATE_EPOCH", "")
    moment = int(stated) if stated.isdigit() else time.time()
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _count(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 2**16:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _share(text: str) -> float:
    try:
        value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        value = -1.0
    if not 0 <= value < 100:
        raise argparse.ArgumentTypeError(f"`{text}` is not a share, such as 5%")
    return value


class _Line:
    """A line of progress on a terminal."""

    def __init__(self) -> None:
        self._next, self._shown = 0.0, False

    def __call__(self, runs: int) -> None:
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.2
        print(f"\r{runs:,} simulations", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        """Take it away."""
        if self._shown:
            print("\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True)
            self._shown = False


if __name__ == "__main__":
    sys.exit(main())
