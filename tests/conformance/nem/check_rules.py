"""Every rule of the language: a smallest program that passes and one that fails, with its findings.

usage: check_rules.py [--update] KPUSIM [WORDS...]

Each rules/TOPIC.cases (rule_cases.py gives the form) holds, for every RULE of one part of the language,
  RULE.pass.nem  accepted in both modes, without a finding unless RULE.pass.txt lists some
  RULE.fail.nem  refused in default mode, in strict mode, or in both
  RULE.fail.txt  what `kpusim check` prints for it, by default and with --strict
A first line `# check: OPTIONS` adds options. With WORDS only the programs whose TOPIC/NAME holds one of them
run; --update writes the .txt files instead of comparing. A wrong case is told with the commands that run it
by hand.
"""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import rule_cases
from rule_cases import Files

MODES = {"default": (), "strict": ("--strict",)}
OPTIONS = "# check: "
# The smallest programs of a rule compute what nobody reads: that is no matter of the rule.
WASTE = re.compile(r"^\S+: info: (?:dead (?:result|transfer|store)|unused buffer): .*\n", re.MULTILINE)


@dataclass(frozen=True)
class Case:
    """One program of a topic."""

    topic: str
    name: str
    files: Files

    @property
    def options(self) -> list[str]:
        """Return what its first line adds to the command."""
        first = self.files[self.name].partition("\n")[0]
        return shlex.split(first[len(OPTIONS) :]) if first.startswith(OPTIONS) else []

    @property
    def expected(self) -> str:
        """Name of the file that lists its findings."""
        return self.name.removesuffix(".nem") + ".txt"

    def by_hand(self, kpusim: str) -> str:
        """Commands that run it."""
        unpack = ["python3", str(Path(rule_cases.__file__)), "out/rules", f"{self.topic}/{self.name}"]
        command = [kpusim, "check", self.name, *self.options]
        return f"{shlex.join(unpack)}\n(cd out/rules/{self.topic} && {shlex.join(command)})"


def check(kpusim: str, folder: Path, case: Case) -> tuple[str, dict[str, int]]:
    """Findings in both modes as one text, and the exit codes."""
    text, codes = "", {}
    for mode, extra in MODES.items():
        run = subprocess.run(
            [kpusim, "check", case.name, *case.options, *extra],
            cwd=folder / case.topic,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        codes[mode] = run.returncode
        text += f"# {mode}: exit {run.returncode}\n{WASTE.sub('', run.stdout)}{run.stderr}"
    return text, codes


def problem(case: Case, text: str, codes: dict[str, int]) -> str:
    """Say what is wrong with the program's exit codes; empty when nothing is."""
    passes = case.name.endswith(".pass.nem")
    partner = case.name.replace(*((".pass.", ".fail.") if passes else (".fail.", ".pass.")))
    if partner not in case.files:
        return f"has no {partner}"
    if passes and any(codes.values()):
        return f"is refused:\n{text}"
    if not passes and not any(codes.values()):
        return f"is accepted:\n{text}"
    if any(code not in (0, 1) for code in codes.values()):
        return f"is neither accepted nor refused:\n{text}"
    return ""


def difference(case: Case, text: str) -> str:
    """Say how the findings differ from the expected ones; empty when they do not."""
    if case.expected not in case.files:
        return f"has no {case.expected}; it prints:\n{text}" if needs_text(case, text) else ""
    old, new = case.files[case.expected].splitlines(), text.splitlines()
    return "\n".join(difflib.unified_diff(old, new, "expected", "printed", lineterm="", n=0))


def needs_text(case: Case, text: str) -> bool:
    """Return whether the findings stand in a file: not those of a program that passes in silence."""
    return case.name.endswith(".fail.nem") or not all(line.startswith("# ") for line in text.splitlines())


def update(topics: dict[str, Files], texts: dict[tuple[str, str], str]) -> None:
    """Write the topics again, with the programs' new findings beside them."""
    for topic, files in topics.items():
        result: Files = {}
        for name, old in files.items():
            if name.endswith(".nem"):
                case = Case(topic, name, files)
                result[name] = old
                text = texts.get((topic, name), files.get(case.expected, ""))
                if text and needs_text(case, text):
                    result[case.expected] = text
        if result != files:
            rule_cases.write(rule_cases.RULES / f"{topic}.cases", result)


def main() -> int:
    """Run all cases; list those that differ."""
    arguments = sys.argv[1:]
    renew = "--update" in arguments
    kpusim, *words = [a for a in arguments if a != "--update"]
    kpusim = str(Path(kpusim).resolve())
    topics = rule_cases.topics()
    cases = [
        Case(topic, name, files)
        for topic, files in topics.items()
        for name in files
        if name.endswith(".nem")
        and not name.startswith(rule_cases.SUPPORT)
        and (not words or any(word in f"{topic}/{name}" for word in words))
    ]
    bad = 0
    for topic, files in topics.items():
        for name in files:
            if name.endswith(".txt") and name.removesuffix(".txt") + ".nem" not in files:
                bad += 1
                print(f"{topic}/{name}: belongs to no case")
    texts = {}
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        rule_cases.unpack(Path(folder), [])
        results = pool.map(lambda case: check(kpusim, Path(folder), case), cases)
        for case, (text, codes) in zip(cases, results, strict=True):
            wrong = problem(case, text, codes) or ("" if renew else difference(case, text))
            if wrong:
                bad += 1
                print(f"{case.topic}/{case.name}: {wrong}\nTo run it by hand:\n{case.by_hand(kpusim)}\n")
            else:
                texts[case.topic, case.name] = text
    if renew:
        update(topics, texts)
    print(f"{len(cases)} programs, {bad} wrong")
    return 1 if bad or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
