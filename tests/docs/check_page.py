"""Runs a page of documentation: checks its programs, runs its commands, compares what it says they print.

usage: check_page.py [--update] path/to/kpusim docs/nem/PAGE.md

    ```nem NAME.nem         a file of the page; `kpusim check` must find nothing in it, unless a command
                            names it
    ```nem                  the same, without a name of its own
    ```nem NAME.nem config  a file that others include
    ```text NAME            a file of the page that is no program; with a folder: see extract_files.py
    ```console              commands after "$ ", run in order in the folder of the page's files, each followed
                            by what it prints on either stream. A line `...` stands for any lines, `…` for
                            anything within a line. A command must exit with 0, or with 1 where the page shows
                            an error; `# (exit N)` at its end says otherwise.
    ```sh                   commands for one shell, which may write but must not fail
    ```console varying      numbers, bars and column widths may differ: they belong to the model

The folder has the examples of the repository. Commands are kpusim, python3 (with NumPy) and what every shell
has. --update writes down what the commands print now, where that differs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

FENCE = re.compile(r"^```(\w+)(?: +([^\n]*))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"\s+#\s*\(exit (\d+)\)$")
TIMEOUT_SECONDS = 120


class Page:
    """A page, the folder that its files go to, and what was found wrong."""

    def __init__(self, kpusim: Path, path: Path, folder: Path, update: bool) -> None:
        self.path = path
        self.folder = folder
        self.update = update
        self.failures: list[str] = []
        self.programs = 0
        self.commands = 0
        (folder / "examples").symlink_to(Path(__file__).resolve().parents[2] / "examples")
        tools = folder / "tools"
        tools.mkdir()
        (tools / "kpusim").symlink_to(kpusim)
        built = folder / "build/release/bin"
        built.mkdir(parents=True)
        (built / "kpusim").symlink_to(kpusim)
        (tools / "python3").symlink_to("/usr/bin/python3")
        self.environment = {"PATH": f"{tools}:/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}

    def run(self) -> str:
        """Return the page, with what its commands print now."""
        text = self.path.read_text(encoding="utf-8")
        blocks = list(FENCE.finditer(text))
        sessions = [block.group(3) for block in blocks if block.group(1) == "console"]
        updated, end = "", 0
        for block in blocks:
            line = text.count("\n", 0, block.start()) + 1
            options = (block.group(2) or "").split()
            body = block.group(3)
            if block.group(1) == "nem":
                self.program(line, options, body, sessions)
            elif block.group(1) == "text" and options and "/" not in options[0]:
                (self.folder / options[0]).write_text(body, encoding="utf-8")
            elif block.group(1) == "console":
                body = self.session(line, body, "varying" in options)
            elif block.group(1) == "sh":
                self.script(line, body)
            updated += text[end : block.start(3)] + body
            end = block.end(3)
        return updated + text[end:]

    def program(self, line: int, options: list[str], text: str, sessions: list[str]) -> None:
        """Write a program down; check it unless a command shows what is said about it."""
        self.programs += 1
        name = options[0] if options else f"block{line}.nem"
        (self.folder / name).write_text(text, encoding="utf-8")
        if "config" in options or any(
            re.search(rf"(?<![\w.]){re.escape(name)}\b", session) for session in sessions
        ):
            return
        code, output = self.execute(f"kpusim check {name}")
        if code != 0 or output:
            self.fail(line, f"kpusim check {name} says (exit {code}):\n{output}")

    def script(self, line: int, text: str) -> None:
        """Run a block of commands, whose output the page does not show."""
        self.commands += 1
        code, output = self.execute(f"set -e\n{text}")
        if code != 0:
            self.fail(line, f"the commands exit with {code}:\n{output}")

    def session(self, line: int, text: str, varying: bool) -> str:
        """Run the commands of a console block; return the block with what they print now."""
        commands: list[tuple[int, str, list[str]]] = []
        for number, content in enumerate(text.splitlines(), line + 1):
            if content.startswith("$ "):
                commands.append((number, content[2:], []))
            elif not commands:
                self.fail(number, "a console block starts with a command: $ kpusim ...")
                return text
            else:
                commands[-1][2].append(content)
        return "".join(
            self.command(number, command, expected, varying) for number, command, expected in commands
        )

    def command(self, line: int, command: str, expected: list[str], varying: bool) -> str:
        """Run a command and compare exit code and output."""
        self.commands += 1
        stated = COMMENT.search(command)
        code, output = self.execute(COMMENT.sub("", command))
        printed = "".join(f"{entry}\n" for entry in expected)
        if not re.fullmatch(pattern_of(expected, varying), output):
            if not self.update:
                self.fail(line, f"`{command}` prints:\n{output}")
            printed = output
        wanted = int(stated.group(1)) if stated else int("error: " in printed)
        if code != wanted:
            self.fail(line, f"`{command}` exits with {code}, not {wanted}:\n{output}")
        return f"$ {command}\n{printed}"

    def execute(self, command: str) -> tuple[int, str]:
        """Exit code and output of a shell command in the page's folder."""
        result = subprocess.run(
            ["/bin/bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TIMEOUT_SECONDS,
            check=False,
        )
        lines = result.stdout.decode("utf-8").splitlines()
        return result.returncode, "".join(f"{line.rstrip()}\n" for line in lines)

    def fail(self, line: int, message: str) -> None:
        """Note what is wrong at a line of the page."""
        self.failures.append(f"{self.path}:{line}: {message}")


def pattern_of(expected: list[str], varying: bool) -> str:
    """Return the expected lines as a regular expression over whole lines."""
    pattern = ""
    for line in expected:
        if line.strip() == "...":
            pattern += r"(?:.*\n)*?"
            continue
        text = ".*".join(re.escape(part) for part in line.rstrip().split("…"))
        if varying:
            text = re.sub(r"(?:\\ )+", r" +", text)
            text = re.sub(r"(?<!\w)\d(?:[\d,]|\\\.)*", r"[\\d.,]+", text)
            text = re.sub("[█▓▒░·]{4,}", "[█▓▒░·]+", text)
        pattern += text + "\n"
    return pattern


def check_links(path: Path) -> list[str]:
    """Links to files of the repository that are not there."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", text)
    return [
        f"{path}: link to {target}, which is not there"
        for target in targets
        if not (path.parent / target).exists()
    ]


def main() -> int:
    """Check one page; 1 when anything is wrong."""
    update = sys.argv[1] == "--update"
    kpusim, path = (Path(argument) for argument in sys.argv[1 + update :])
    with tempfile.TemporaryDirectory() as folder:
        page = Page(kpusim.resolve(), path, Path(folder), update)
        text = page.run()
    if update and text != path.read_text(encoding="utf-8"):
        path.write_text(text, encoding="utf-8")
    failures = page.failures + check_links(path)
    for failure in failures:
        print(failure)
    print(f"{path}: {page.programs} programs, {page.commands} commands, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
