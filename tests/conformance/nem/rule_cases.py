"""The cases of check_rules.py: what would be the files of a folder stands in one file, rules/TOPIC.cases.

usage: rule_cases.py FOLDER [WORDS...]

writes them as files, FOLDER/TOPIC/NAME, to run them by hand; with WORDS only the cases whose TOPIC/NAME holds
one of them, and the support files that they may include.

The form: a line `==== NAME` begins a file, which goes on to the next such line or the end. Blank lines at its
end are not part of it. Before the first one stand only comments (#). NAME is RULE.pass.nem, RULE.fail.nem,
RULE.pass.txt, RULE.fail.txt (check_rules.py says what they hold), or support/FILE.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

RULES = Path(__file__).resolve().parent / "rules"
HEADER = re.compile(r"^==== (.*)$", re.MULTILINE)
NAME = re.compile(r"\w+\.(?:pass|fail)\.(?:nem|txt)|support/\w+\.nem")
SUPPORT = "support/"

Files = dict[str, str]


def read(path: Path) -> Files:
    """Return the files of one topic by name, in the order of the text."""
    head, *parts = HEADER.split(path.read_bytes().decode())
    if any(line.strip() and not line.startswith("#") for line in head.splitlines()):
        raise SystemExit(f"{path}: text before the first file. Fix: begin it with a line `==== NAME`.")
    files: Files = {}
    for name, text in zip(parts[::2], parts[1::2], strict=True):
        if not NAME.fullmatch(name):
            raise SystemExit(
                f"{path}: `{name}` names no case. Fix: RULE.pass.nem, RULE.fail.nem or support/FILE.nem"
            )
        if name in files:
            raise SystemExit(f"{path}: `{name}` stands here twice. Fix: rename or delete one of them.")
        files[name] = text.removeprefix("\n").rstrip("\n") + "\n"
    return files


def write(path: Path, files: Files) -> None:
    """Replace the files of one topic; what stands before the first one is kept."""
    head = HEADER.split(path.read_bytes().decode())[0].rstrip("\n")
    for name, text in files.items():
        if HEADER.search(text) or text != text.rstrip("\n") + "\n":
            raise SystemExit(
                f"{path}: cannot hold {name}: {text[:200]!r}. Fix: no line `==== NAME`, one line end last."
            )
    parts = [head + "\n"] + [f"==== {name}\n{text}" for name, text in files.items()]
    path.write_bytes(("\n".join(part for part in parts if part)).encode())


def topics() -> dict[str, Files]:
    """Return all of them by name."""
    return {path.stem: read(path) for path in sorted(RULES.glob("*.cases"))}


def unpack(folder: Path, words: list[str]) -> list[Path]:
    """Write the chosen cases, all without words, as files; return the paths."""
    written = []
    for topic, files in topics().items():
        chosen = [name for name in files if not words or any(word in f"{topic}/{name}" for word in words)]
        if any(not name.startswith(SUPPORT) for name in chosen):
            chosen += [name for name in files if name.startswith(SUPPORT) and name not in chosen]
        for name in chosen:
            path = folder / topic / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(files[name].encode())
            written.append(path)
    return written


def main() -> None:
    """Unpack."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    paths = unpack(Path(sys.argv[1]), sys.argv[2:])
    if not paths:
        raise SystemExit(
            f"no case has one of {', '.join(sys.argv[2:])} in its name. Fix: see {RULES}/*.cases"
        )
    for path in paths if sys.argv[2:] else []:
        print(path)


if __name__ == "__main__":
    main()
