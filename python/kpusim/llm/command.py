"""The command ``kpusim llm``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kpusim.base.verbs import OK, exit_code
from kpusim.errors import UserError
from kpusim.llm.composing import estimate, overrides_of
from kpusim.llm.report import csv_of, json_of, prepared, text_of, write


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit code, as of ``kpusim``."""
    return exit_code(_run, arguments)


class _Parser(argparse.ArgumentParser):
    """Errors as of the rest of the command."""

    def error(self, message: str) -> Any:
        raise UserError(f"{message}. Fix: see `kpusim llm --help`.")


def _parser() -> _Parser:
    parser = _Parser(
        prog="kpusim llm", allow_abbrev=False,
        description="How fast a language model is on a device, of its configuration alone. "
        "docs/language_models.md says what is simulated.",
    )  # fmt: skip
    parser.add_argument("config", metavar="CONFIG", help="config.json of transformers, or a folder with one")
    parser.add_argument(
        "--prompt", type=_sizes, default=[128], metavar="N,...", help="tokens, or none; default 128"
    )
    parser.add_argument(
        "--context", type=_sizes, default=[1024], metavar="N,...",
        help="positions in the cache before a new token, or none; default 1024",
    )  # fmt: skip
    parser.add_argument("--batch", type=_sizes, default=[1], metavar="N,...", help="sequences; default 1")
    parser.add_argument(
        "--precision",
        default="int4",
        metavar="TYPE",
        help="of the weights: f32, fp16, bf16, int8, int4 (default)",
    )
    parser.add_argument("--kv", metavar="TYPE", help="of the cache: int8, or the float type (default)")
    parser.add_argument("--platform", default="npm_pro", metavar="NAME|FILE", help="default npm_pro")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a parameter of the platform; again for others",
    )
    parser.add_argument(
        "--routing",
        default="uniform",
        metavar="TEXT",
        help="which experts tokens choose: uniform, or skewed:S (Zipf)",
    )
    parser.add_argument("--effort", choices=("1", "2", "3"), help="of the compiler")
    parser.add_argument(
        "--whole", action="store_true", help="all layers as one program, not one of each kind"
    )
    parser.add_argument("--workers", type=_size, metavar="N", help="processes; default: one a core")
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="folder for report, tables, platform and models"
    )
    parser.add_argument("--force", action="store_true", help="write into a folder that is not empty")
    told = parser.add_mutually_exclusive_group()
    told.add_argument("--json", action="store_true", help="all of it as JSON, instead of the report")
    told.add_argument("--csv", action="store_true", help="the table as CSV, instead of the report")
    told.add_argument("--quiet", action="store_true", help="no report")
    return parser


def _run(words: list[str]) -> int:
    given = _parser().parse_args(words)
    folder = None if given.output is None else Path(given.output)
    options = {} if given.effort is None else {"effort": given.effort}
    line = None if given.quiet or not sys.stderr.isatty() else _Line()
    models = None if folder is None else prepared(folder, given.force)
    try:
        found = estimate(
            given.config, given.platform, prompt=given.prompt, context=given.context, batch=given.batch,
            precision=given.precision, kv=given.kv, routing=given.routing, whole=given.whole,
            workers=given.workers, models=models, progress=line, sets=overrides_of(given.set), **options,
        )  # fmt: skip
    finally:
        if line is not None:
            line.close()
    if folder is not None:
        write(found, folder)
    if not given.quiet:
        print(json_of(found) if given.json else csv_of(found) if given.csv else text_of(found), end="")
        sys.stdout.flush()
    return OK


def _size(text: str) -> int:
    if not text.isdigit() or not 0 < int(text) < 2**31:
        raise argparse.ArgumentTypeError(f"`{text}` is not a whole number above 0")
    return int(text)


def _sizes(text: str) -> list[int]:
    return [] if text == "none" else [_size(part) for part in text.split(",")]


class _Line:
    """A line of progress on a terminal."""

    def __init__(self) -> None:
        self._shown = False

    def __call__(self, done: int, count: int) -> None:
        print(f"\r{done} of {count} pieces", end="", file=sys.stderr, flush=True)
        self._shown = True

    def close(self) -> None:
        """Take it away."""
        if self._shown:
            print("\r" + " " * 30 + "\r", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
