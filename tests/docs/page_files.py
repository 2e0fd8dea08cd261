"""Writes down the files that a tutorial shows, and counts them.

usage: page_files.py PAGE FOLDER [--lines N]

    ```cpp compiler/chain/front_end.cpp     a new file of the repository, as it stands
    ```diff compiler/front_ends.txt         lines that a file of the repository gets (+), between lines that
                                            it has: FOLDER gets the whole file with them

All new files must lie in one folder or be one file; --lines N: the diffs add N lines in all.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"^```(\w+) +([\w.-]+(?:/[\w.-]+)+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def with_additions(path: str, diff: str) -> tuple[str, int]:
    """The repository's file with the lines that a diff adds, and how many these are."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    old = [line[1:] for line in diff.splitlines() if line[:1] != "+"]
    new = [line[1:] for line in diff.splitlines()]
    places = [at for at in range(len(lines) - len(old) + 1) if lines[at : at + len(old)] == old]
    if not old or len(places) != 1 or any(line[:1] not in (" ", "+") for line in diff.splitlines()):
        raise SystemExit(f"{path}: the diff fits at {len(places)} places. Fix: show lines that stand once.")
    lines[places[0] : places[0] + len(old)] = new
    return "\n".join(lines) + "\n", len(new) - len(old)


def main() -> int:
    """Write the files of one page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--lines", type=int)
    arguments = parser.parse_args()
    files: dict[str, str] = {}
    added = 0
    for language, path, text in BLOCK.findall(arguments.page.read_text(encoding="utf-8")):
        if language == "diff":
            files[path], count = with_additions(path, text)
            added += count
        elif (ROOT / path).exists():
            raise SystemExit(f"{arguments.page}: {path} is in the repository already. Fix: rename the toy.")
        else:
            files[path] = text
    new = [path for path in files if not (ROOT / path).exists()]
    folders = {str(Path(path).parent) for path in new}
    print(f"{len(new)} new files in {', '.join(sorted(folders))}; {added} lines elsewhere")
    for path, text in files.items():
        target = arguments.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")
    return 0 if len(folders) == 1 and arguments.lines in (None, added) else 1


if __name__ == "__main__":
    sys.exit(main())
