"""Each fix that errors of kpusim.llm advise works: a case makes a mistake, and follows the fix."""

from __future__ import annotations

import contextlib
import functools
import io
import json
import sys
from pathlib import Path

import pytest
from conftest import CONFIGS, TINY
from fixes import Case, check_complete, manual, play
from kpusim.llm import Estimate, estimate
from kpusim.llm.command import main
from kpusim.llm.experts import Routing
from kpusim.llm.families import read_model
from kpusim.llm.formats import Formats


def stated(**changes: object) -> Path:
    """Return a small model's configuration, with other fields."""
    path = Path("tiny.json")
    path.write_text(json.dumps({**TINY["gpt_neox"], **changes}))
    return path


def written(content: bytes) -> Path:
    """Return a file that should be one."""
    path = Path("config.json")
    path.write_bytes(content)
    return path


def found(**more: object) -> Estimate:
    """Return an estimate of a step."""
    given = {"platform": "npm_lite", "prompt": [], "context": [8], "precision": "fp16", "effort": "1", **more}
    return estimate(stated(), **given)  # type: ignore[arg-type]


def command(*words: object, code: int = 0) -> str:
    """Return what `kpusim llm` prints."""
    said = io.StringIO()
    small = ["--prompt", "none", "--context", "8", "--platform", "npm_lite", "--precision", "fp16"]
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
        assert main([str(stated()), *small, *map(str, words)]) == code, said.getvalue()
    return said.getvalue()


def full() -> str:
    """Return a folder that holds something."""
    Path("full").mkdir(exist_ok=True)
    Path("full/mine.txt").touch()
    return "full"


def without_python() -> object:
    """Processes that end at once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/false")
        return found()


MANUAL = functools.partial(manual, main, "--context N,...")
CASES = [
    Case("llm/experts.py", "Fix: uniform, or skewed:S with S from 0 to 10.", lambda: Routing.of("skewed:11"),
         [lambda: Routing.of("uniform"), lambda: Routing.of("skewed:0"), lambda: Routing.of("skewed:10")]),
    Case("llm/report.py", "Fix: give a new folder, or `kpusim llm --force`.",
         lambda: command("-o", full(), code=1),
         [lambda: command("-o", "new"), lambda: command("-o", full(), "--force")]),
    Case("llm/report.py", "Fix: give a folder that can be written.",
         lambda: command("-o", stated(), code=1), [lambda: command("-o", "new")]),
    Case("llm/configuration.py", "{}: `{}` {}. Fix: {}.", lambda: read_model(stated(hidden_act="sine")),
         [lambda: read_model(stated(hidden_act="silu"))]),
    Case("llm/configuration.py", "Fix: give a config.json.",
         lambda: read_model(written(b" " * (2 << 23) + b"{}")), [lambda: read_model(stated())]),
    Case("llm/configuration.py", "Fix: give a config.json, or a folder with one.",
         lambda: read_model(Path("none.json")),
         [lambda: read_model(stated()), lambda: written(stated().read_bytes()) and read_model(Path())]),
    Case("llm/configuration.py", "it is not JSON: {}. Fix: give the model's own config.json.",
         lambda: read_model(written(b"{")), [lambda: read_model(CONFIGS / "gpt2.json")]),
    Case("llm/configuration.py", "it is not a JSON object. Fix: give the model's own config.json.",
         lambda: read_model(written(b"[]")), [lambda: read_model(CONFIGS / "gpt2.json")]),
    Case("llm/running.py", "Fix: have one worker.", without_python, [lambda: found(workers=1)]),
    Case("llm/composing.py", "Fix: give one of them.", lambda: found(context=[]),
         [found, lambda: found(context=[], prompt=[4])]),
    Case("llm/composing.py", "Fix: give a smaller one.", lambda: found(context=[1 << 30]), [found]),
    Case("llm/composing.py", "Fix: write such as ddr.channels=2.", lambda: command("--set", "ddr", code=1),
         [lambda: command("--set", "ddr.channels=2")]),
    Case("llm/command.py", "{}. Fix: see `kpusim llm --help`.", lambda: command("--wide", code=1), [MANUAL]),
    Case("llm/formats.py", "Fix: give one of {}.", lambda: Formats.of("int3", None),
         [lambda: Formats.of("int8", None), lambda: Formats.of("fp16", None)]),
    Case("llm/formats.py", "Fix: make it int8 or {}.", lambda: Formats.of("bf16", "fp16"),
         [lambda: Formats.of("bf16", "int8"), lambda: Formats.of("bf16", "bf16")]),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_fix(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The mistake is refused with this fix, and what it advises is accepted."""
    monkeypatch.chdir(tmp_path)
    play(case)


def test_every_fix_is_played() -> None:
    """All can be."""
    check_complete("llm/", CASES, {})
