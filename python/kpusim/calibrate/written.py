"""The platform that a fit leaves: a file that extends the old one, and says where its values are from."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from kpusim.calibrate.found import Calibration, Compared
from kpusim.errors import UserError
from kpusim.platform import OverrideValue, Platform, text_of

MARK = "# written by kpusim calibrate"


@dataclass(frozen=True)
class Stated:
    """Statements in the head of such a file.

    Attributes
    ----------
    made_for : str
        Platform that programs were compiled for.
    mean : float
        Mean error of all rows.
    """

    made_for: str
    mean: float


def stated_of(source: str) -> Stated | None:
    """Return what a platform's file says of its fit; None for one that was not fitted.

    Raises
    ------
    UserError
        For a file of this command whose head was changed.
    """
    path = Path(source)
    if path.suffix != ".textproto" or not path.is_file():
        return None
    text = path.read_text(encoding="utf-8", errors="replace")
    if not text.startswith(MARK):
        return None
    mean = re.search(r"^# mean error of all rows: ([\d.]+) %$", text, re.M)
    made_for = re.search(r"^# programs compiled for: (.+)$", text, re.M)
    if mean is None or made_for is None:
        raise UserError(f"{path}: its head lacks what was fitted. Fix: calibrate it again.")
    beside = path.parent / made_for[1]
    name = made_for[1] if made_for[1] in Platform.names() else os.fspath(beside)
    return Stated(name, float(mean[1]) / 100)


def platform_text(found: Calibration, target: Path, command: str, date: str) -> str:
    """Return the file's text.

    Raises
    ------
    UserError
        Where the values cannot be stated as changes of the old platform.
    """
    folder = target.absolute().parent
    name = re.sub(r"\W+", "_", target.stem)
    head = [
        f"{MARK}; docs/calibration.md",
        f"# data: {found.data.path.name} sha256 {found.data.digest}",
        f"# command: {command}",
        f"# date: {date}",
        f"# programs compiled for: {_seen_from(found.made_for, folder)}",
        f"# mean error of all rows: {100 * _mean_of_all(found):.3f} %",
        f"# fitted: {_compared(found.all_rows)}",
    ]
    if found.held_out is not None:
        head.append(f"# held out ({found.held_out.name}): {_compared(found.held_out)}")
    head += [f"# held out in turn, `{item.name}`: {_compared(item)}" for item in found.by_split]
    head += [f"# bound by {item.name}: {_compared(item)}" for item in found.by_cause]
    values: dict[str, OverrideValue] = dict(found.sets)
    remarks = {key: "given" for key in values}
    for item in found.fitted:
        was = f"{item.parameter.start:g}"
        values[item.parameter.name] = item.value
        remarks[item.parameter.name] = (
            f"was {was}; standard error {item.error:.3g}, {item.low:.6g} to {item.high:.6g} at 95 %"
        )
    body = [f'name: "{name}"', f'extends: "{_seen_from(found.source, folder)}"']
    body += _blocks(values, remarks, found.platform)
    text = "\n".join([*head, *body, ""])
    _check(text, target, found.platform)
    return text


def _mean_of_all(found: Calibration) -> float:
    measured = {row.name: row.measured for row in found.data.rows}
    errors = [abs(after / measured[name] - 1) for name, (_, after) in found.simulated.items()]
    return sum(errors) / len(errors)


def _compared(item: Compared) -> str:
    return (
        f"{item.before.rows} rows, median {100 * item.before.median:.2f} -> {100 * item.after.median:.2f} %, "
        f"mean {100 * item.before.mean:.2f} -> {100 * item.after.mean:.2f} %, "
        f"90th percentile {100 * item.before.p90:.2f} -> {100 * item.after.p90:.2f} %"
    )


def _seen_from(source: str, folder: Path) -> str:
    return source if source in Platform.names() else os.path.relpath(Path(source).absolute(), folder)


def _blocks(values: Mapping[str, OverrideValue], remarks: Mapping[str, str], platform: Platform) -> list[str]:
    """Fields as nested blocks; those of engines once for each of them."""
    tree: dict[str, Any] = {}
    for path, value in values.items():
        *outer, last = path.split(".")
        inner = tree
        for word in outer:
            inner = inner.setdefault(word, {})
        inner[last] = f"{text_of(value)}  # {remarks[path]}"
    lines: list[str] = []
    engines = len(re.findall(r"(?m)^engine \{", platform.text()))
    for word, inner in tree.items():
        for _ in range(engines if word == "engine" else 1):
            lines += _lines(word, inner, "")
    return lines


def _lines(word: str, value: object, indent: str) -> list[str]:
    if not isinstance(value, dict):
        return [f"{indent}{word}: {value}"]
    inner = [line for key, part in value.items() for line in _lines(key, part, indent + "  ")]
    return [f"{indent}{word} {{", *inner, f"{indent}}}"]


def _check(text: str, target: Path, wanted: Platform) -> None:
    """The file must give the fitted platform: what the other one derives from its fields must follow."""
    folder = target.absolute().parent  # where `extends` is looked up
    with NamedTemporaryFile(
        "w", dir=folder, prefix=".kpusim-", suffix=".textproto", encoding="utf-8"
    ) as trial:
        trial.write(text)
        trial.flush()
        try:
            made = plain_text(Platform.load(trial.name))
        except UserError:
            made = ""
    if made != plain_text(wanted):
        raise UserError(
            f"{target}: the fitted values are not plain fields of the platform. Fix: fit others, or write "
            "the changes by hand: `kpusim calibrate` without -o prints them."
        )


def plain_text(platform: Platform) -> str:
    """Return all that decides results: the text without the platform's name."""
    return re.sub(r"(?m)^(name|version|description|source): .*\n", "", platform.text())
