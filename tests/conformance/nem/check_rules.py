"""Every rule of the language: a smallest program that passes and one that fails, with its findings.

usage: check_rules.py [--update] KPUSIM [WORDS...]

Each folder of rules/ holds, for every rule NAME of one part of the language,
  NAME.pass.nem   accepted in both modes, without a finding unless NAME.pass.txt lists some
  NAME.fail.nem   refused in default mode, in strict mode, or in both
  NAME.fail.txt   what `kpusim check` prints for it, by default and with --strict
A first line `# check: OPTIONS` adds options. Files of support/ are only included. With WORDS only the cases
whose name holds one of them run; --update writes the .txt files instead of comparing.
"""

from __future__ import annotations

import difflib
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RULES = Path(__file__).resolve().parent / "rules"
MODES = {"default": (), "strict": ("--strict",)}
OPTIONS = "# check: "
# The smallest programs of a rule compute what nobody reads: that is no matter of the rule.
WASTE = re.compile(r"^\S+: info: (?:dead (?:result|transfer|store)|unused buffer): .*\n", re.MULTILINE)


def check(kpusim: str, program: Path) -> tuple[str, dict[str, int]]:
    """Findings in both modes as one text, and the exit codes."""
    first = program.read_text().partition("\n")[0]
    options = shlex.split(first[len(OPTIONS) :]) if first.startswith(OPTIONS) else []
    text, codes = "", {}
    for mode, extra in MODES.items():
        run = subprocess.run(
            [kpusim, "check", program.name, *options, *extra],
            cwd=program.parent,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        codes[mode] = run.returncode
        text += f"# {mode}: exit {run.returncode}\n{WASTE.sub('', run.stdout)}{run.stderr}"
    return text, codes


def problem(kpusim: str, program: Path, update: bool) -> str:
    """What is wrong with a case; empty when nothing is."""
    text, codes = check(kpusim, program)
    expected = program.with_suffix(".txt")
    passes = program.name.endswith(".pass.nem")
    partner = program.with_name(
        program.name.replace(*((".pass.", ".fail.") if passes else (".fail.", ".pass.")))
    )
    if not partner.exists():
        return f"has no {partner.name}"
    if passes and any(codes.values()):
        return f"is refused:\n{text}"
    if not passes and not any(codes.values()):
        return f"is accepted:\n{text}"
    if any(code not in (0, 1) for code in codes.values()):
        return f"is neither accepted nor refused:\n{text}"
    silent = all(line.startswith("# ") for line in text.splitlines())
    if update:
        if passes and silent:
            expected.unlink(missing_ok=True)
        else:
            expected.write_text(text)
        return ""
    if not expected.exists():
        return "" if passes and silent else f"has no {expected.name}; it prints:\n{text}"
    difference = difflib.unified_diff(
        expected.read_text().splitlines(), text.splitlines(), "expected", "printed", lineterm="", n=0
    )
    return "\n".join(difference)


def main() -> int:
    """Run all cases; list those that differ."""
    arguments = sys.argv[1:]
    update = "--update" in arguments
    kpusim, *words = [a for a in arguments if a != "--update"]
    kpusim = str(Path(kpusim).resolve())
    programs = [p for p in sorted(RULES.rglob("*.nem")) if p.parent.name != "support"]
    programs = [p for p in programs if not words or any(word in str(p) for word in words)]
    strange = [p for p in programs if not p.name.endswith((".pass.nem", ".fail.nem"))]
    orphans = [t for t in sorted(RULES.rglob("*.txt")) if not t.with_suffix(".nem").exists()]
    bad = 0
    for path in strange + orphans:
        bad += 1
        print(f"{path.relative_to(RULES)}: belongs to no case")
    with ThreadPoolExecutor(2) as pool:
        results = pool.map(lambda p: problem(kpusim, p, update), programs)
        for program, text in zip(programs, results, strict=True):
            if text:
                bad += 1
                print(f"{program.relative_to(RULES)}: {text}")
    print(f"{len(programs)} programs, {bad} wrong")
    return 1 if bad or not programs else 0


if __name__ == "__main__":
    sys.exit(main())
