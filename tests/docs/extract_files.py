"""Writes the files that a tutorial shows, as they stand on the page, so that a build can compile them.

usage: extract_files.py PAGE FOLDER FILE...

    ```cpp FILE                     the whole file
    ```cpp FILE above `LINE`        lines to add to FILE of the repository, above its only line that starts
                                    with LINE; FOLDER gets a copy of the file with them
    ```cpp                          an illustration: not extracted

FILE... are the files that the page must show, no more and no fewer: a tutorial that says "two files, nothing
else" is held to it. Blocks for one file apply in the order of the page.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w+)(?: +([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"(?P<file>[\w./-]*[./][\w./-]*)(?: above `(?P<line>.+)`)?$")


def with_lines_above(text: str, line: str, added: str, where: str) -> str:
    """Return the text with lines added above the one that starts with `line`."""
    lines = text.splitlines(keepends=True)
    found = [i for i, candidate in enumerate(lines) if candidate.strip().startswith(line)]
    if len(found) != 1:
        sys.exit(f"{where}: {len(found)} lines start with `{line}`. Fix: name one line of the file.")
    return "".join([*lines[: found[0]], added, *lines[found[0] :]])


def files_of(page: Path) -> dict[str, str]:
    """Path and text of each file that the page shows."""
    files: dict[str, str] = {}
    text = page.read_text(encoding="utf-8")
    for block in FENCE.finditer(text):
        named = NAMED.match(block.group(2) or "")
        if named is None:
            continue
        name, line, body = named.group("file"), named.group("line"), block.group(3)
        where = f"{page}:{text.count(chr(10), 0, block.start()) + 1}: {name}"
        if line is None:
            if name in files or (ROOT / name).exists():
                sys.exit(f"{where}: the file is there already. Fix: say above which line, or use a new name.")
            files[name] = body
            continue
        if name not in files:
            if not (ROOT / name).exists():
                sys.exit(f"{where}: there is no such file. Fix: name one of the repository.")
            files[name] = (ROOT / name).read_text(encoding="utf-8")
        files[name] = with_lines_above(files[name], line, body, where)
    return files


def main() -> None:
    """Extracts, or says what is wrong with the page."""
    page, folder, wanted = Path(sys.argv[1]), Path(sys.argv[2]), set(sys.argv[3:])
    files = files_of(page)
    if set(files) != wanted:
        sys.exit(
            f"{page}: shows {' '.join(sorted(files))}, its test names {' '.join(sorted(wanted))}. "
            "Fix: make the page and tests/docs/CMakeLists.txt agree."
        )
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
