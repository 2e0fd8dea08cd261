"""Plants mutants into the sources of rooms and tells which ones the rooms' tests catch.

usage: mutants.py ROOM... [--files GLOB] [--count N] [--seed S] [--targets NAME,...] [--tests REGEX]
                          [--build build/release] [--log FILE]

A mutant is one change that a tired person might make: a turned comparison, an operator for another one, a
number that is off by one, a statement left out. Each is built and meets the tests of `./test.sh room ROOM`,
up to the first failure; --targets and --tests leave it at some of them. A mutant that does not compile is
drawn again. Alive ones are to be read: some change nothing that anybody can see, the others ask for a test.
The sources are as before afterwards, also after Ctrl-C; run it in a tree that nobody else builds.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS = 600  #: of the tests of one mutant: longer is a hang, which counts as caught
# Of each pattern the group `old` becomes the other text. Blanks keep templates and pointers out.
SWAPS: tuple[tuple[str, str], ...] = (
    (r" (?P<old><) ", "<="), (r" (?P<old><=) ", "<"), (r" (?P<old>>) ", ">="), (r" (?P<old>>=) ", ">"),
    (r" (?P<old>==) ", "!="), (r" (?P<old>!=) ", "=="), (r" (?P<old>&&) ", "||"), (r" (?P<old>\|\|) ", "&&"),
    (r"[\w)\]] (?P<old>\+) [\w(]", "-"), (r"[\w)\]] (?P<old>-) [\w(]", "+"),
    (r"[\w)\]] (?P<old>\*) [\w(]", "/"), (r"(?P<old>\+=)", "-="), (r"(?P<old>-=)", "+="),
    (r"\b(?P<old>true)\b", "false"), (r"\b(?P<old>false)\b", "true"),
    (r"std::(?P<old>min)\(", "max"), (r"std::(?P<old>max)\(", "min"), (r"(?P<old>!)[\w(]", ""),
)  # fmt: skip
NUMBER = re.compile(r"(?<![\w.\"'])(?P<old>\d+)(?![\w.\"'])")
KEPT = "return using case throw break continue static const auto".replace(" ", r"\b|")
STATEMENT = re.compile(rf"^\s+(?!{KEPT}\b)[\w:.\->\[\]]+(\(|\s*[+\-|&*]?= |\+\+|--).*;$")
#: Lines that are no code of their own: texts, declarations of the compiler, what a message says.
SKIPPED = re.compile(
    r"^\s*(//|/\*|\*|#|\"|using |namespace |static_assert|template|case \d)"
    r"|fmt::format|InternalError|UserError|R\""
)


@dataclass(frozen=True)
class Mutant:
    """One changed line of one file."""

    path: Path
    line: int  #: from 0
    old: str
    new: str

    def planted(self) -> str:
        """The file with it."""
        lines = self.path.read_text(encoding="utf-8").splitlines(keepends=True)
        assert lines[self.line].rstrip("\n") == self.old
        lines[self.line] = self.new + "\n"
        return "".join(lines)


def code_of(line: str) -> str:
    """The line with blanks in the place of its texts and comment, as long as before."""
    blank = re.sub(r"\"(\\.|[^\"\\])*\"|'(\\.|[^'\\])*'", lambda m: " " * len(m[0]), line)
    return re.sub(r"//.*", lambda m: " " * len(m[0]), blank)


def changes(line: str) -> Iterator[str]:
    """Every way to change a line of code."""
    code = code_of(line)
    if SKIPPED.search(line) or not code.strip():
        return
    for pattern, new in SWAPS:
        for match in re.finditer(pattern, code):
            yield line[: match.start("old")] + new + line[match.end("old") :]
    for match in NUMBER.finditer(code):
        yield line[: match.start("old")] + str(int(match["old"]) + 1) + line[match.end("old") :]
    if STATEMENT.match(code.rstrip()):
        yield line[: len(line) - len(line.lstrip())] + ";"


def mutants_of(path: Path) -> list[Mutant]:
    """All mutants of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [Mutant(path, at, line, new) for at, line in enumerate(lines) for new in changes(line)]


def drawn(room: str, pattern: str, seed: int) -> Iterator[Mutant]:
    """The mutants of a room, file by file in turn: a long file has no more of them than a short one."""
    choose = random.Random(f"{room} {seed}")
    files = sorted((ROOT / room).glob(pattern))
    if not files:
        sys.exit(f"error: no `{pattern}` in `{room}`. Fix: name a folder with such sources.")
    choose.shuffle(files)
    queues = [found for path in files if (found := mutants_of(path))]
    for queue in queues:
        choose.shuffle(queue)
    while any(queues):
        for queue in queues:
            if queue:
                yield queue.pop()


def built(room: str, build: Path, targets: str) -> bool:
    """Whether the tree as it is compiles."""
    wanted = targets.split(",") if targets else ["kpusim", f"room-{room.replace('/', '-')}"]
    command = ["ninja", "-C", str(build), *wanted]
    return subprocess.run(command, capture_output=True, text=True).returncode == 0


def verdict(room: str, build: Path, targets: str, tests: str) -> tuple[str, str]:
    """Return what becomes of the tree as it is: broken, caught or alive, and what says so."""
    if not built(room, build, targets):
        return "broken", ""
    command = [
        "ctest", "--test-dir", str(build), "-LE", "^(packages|rtl|browser)$", "-L", f"room:{room}( |$)",
        "--stop-on-failure", *(["-R", tests] if tests else []),
    ]  # fmt: skip
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return "caught", f"no end within {MOST_SECONDS} s"
    if "No tests were found" in run.stdout + run.stderr:
        sys.exit(f"error: `{room}` has no tests that match `{tests}`. Fix: choose others.")
    failed = re.search(r"\t *\d+ - (\S+)", run.stdout)
    return ("alive", "") if run.returncode == 0 else ("caught", failed[1] if failed else "a test")


def tried(mutant: Mutant, room: str, build: Path, targets: str, tests: str) -> tuple[str, str]:
    """The verdict on a mutant; the file is as before."""
    original = mutant.path.read_text(encoding="utf-8")
    try:
        mutant.path.write_text(mutant.planted(), encoding="utf-8")
        return verdict(room, build, targets, tests)
    finally:
        mutant.path.write_text(original, encoding="utf-8")


def main() -> None:
    """The rooms of the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument(
        "rooms", nargs="+", metavar="ROOM", help="a folder with tests of its own: compiler/passes"
    )
    parser.add_argument("--files", default="*.cpp", metavar="GLOB")
    parser.add_argument("--count", type=int, default=5, help="mutants of each room that compile")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--targets", default="", help="of ninja, with commas; else all of the room's")
    parser.add_argument(
        "--tests", default="", metavar="REGEX", help="names of the tests, of those of the room"
    )
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--log", type=Path, help="a line of JSON for each mutant")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # through `finally`
    caught = alive = 0
    for room in arguments.rooms:
        if (before := verdict(room, arguments.build, arguments.targets, arguments.tests))[0] != "alive":
            sys.exit(f"error: `{room}` without a mutant: {' '.join(before)}. Fix: mend it first.")
        left = arguments.count
        for mutant in drawn(room, arguments.files, arguments.seed):
            if left == 0:
                break
            start = time.monotonic()
            state, by = tried(mutant, room, arguments.build, arguments.targets, arguments.tests)
            if state == "broken":
                continue
            left -= 1
            caught, alive = caught + (state == "caught"), alive + (state == "alive")
            place = f"{mutant.path.relative_to(ROOT)}:{mutant.line + 1}"
            seconds = round(time.monotonic() - start)
            print(
                f"{state:6} {place}  {mutant.old.strip()}  ->  {mutant.new.strip()}  {by} ({seconds} s)",
                flush=True,
            )
            if arguments.log:
                row = {"room": room, "place": place, "old": mutant.old.strip(), "new": mutant.new.strip()}
                with arguments.log.open("a", encoding="utf-8") as log:
                    log.write(json.dumps(row | {"state": state, "by": by, "seconds": seconds}) + "\n")
        built(room, arguments.build, arguments.targets)  # what stands there is without a mutant
    print(f"{caught} caught, {alive} alive")


if __name__ == "__main__":
    main()
