"""An estimate as text, CSV and JSON, and in a folder."""

from __future__ import annotations

import csv
import io
import json
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from kpusim.errors import UserError
from kpusim.llm.composing import MODEL_FILE, Estimate, Row

#: Files of an estimate's folder, beside models/.
FILES = ("report.txt", "table.csv", "pieces.csv", "llm.json", "platform.textproto")
#: Advice on what makes operations faster that a resource bounds.
HELP = {
    "dram": "more DRAM bandwidth (ddr.channels, ddr.data_rate_mtps) or fewer bytes (--precision, --kv)",
    "array": "more multipliers (engine.array.rows, engine.array.cols, engine.count) or a faster clock",
    "vector": "more vector lanes (engine.vector.lanes) or a faster clock",
    "dma": "wider paths between L2 and L1 (engine.dma.bytes_per_cycle, interconnect.link_bytes_per_cycle)",
}
NAMES = {
    "dram": "DRAM",
    "array": "the arrays",
    "vector": "the vector units",
    "dma": "DMA",
    "": "nothing known",
}


def text_of(found: Estimate) -> str:
    """Return the report."""
    lines = [_title(found)]
    for phase, title, unit in (("prompt", "first token", "prompt"), ("token", "a token", "context")):
        rows = [row for row in found.rows if row.phase == phase]
        if rows:
            lines += ["", *_table(rows, title, unit)]
    lines += ["", "where the time goes"]
    lines += [f"  {_label(row):<30}{_shares(row.parts, row.cycles)}" for row in found.rows]
    lines += ["", "what bounds it, and what would help"]
    lines += [f"  {_label(row):<30}{_advice(row)}" for row in found.rows]
    if too_large := [row for row in found.rows if row.resident_bytes > found.platform.dram_bytes]:
        lines += ["", f"what does not fit into DRAM of {_bytes(found.platform.dram_bytes)} (ddr.size_bytes)"]
        lines += [
            f"  {_label(row):<30}weights and cache take {_bytes(row.resident_bytes)}" for row in too_large
        ]
    lines += ["", *(f"note: {note}" for note in found.notes)]
    return "\n".join(lines) + "\n"


def _title(found: Estimate) -> str:
    model = found.model
    weights = max(row.weight_bytes for row in found.rows)
    return (
        f"{model.name} ({model.family}) on {found.platform.name}: {len(model.layers)} layers, "
        f"weights {found.formats.precision} ({_bytes(weights)} a step), cache {found.formats.cache}"
    )


def _table(rows: list[Row], title: str, unit: str) -> list[str]:
    head = (
        "",
        "batch",
        title,
        "at least",
        "tokens/s",
        "energy/token",
        "arrays",
        "DRAM",
        "compulsory",
        "ratio",
    )
    cells = [head]
    for row in rows:
        ratio = row.dram_bytes / row.compulsory_bytes
        cells.append((
            f"{unit} {row.length:,}", f"{row.batch:,}", _time(row.time_us), _time(row.least_us),
            _figures(row.tokens_per_s),
            _energy(row.energy_per_token_uj), f"{row.compute_utilization:.1%}", _bytes(row.dram_bytes),
            _bytes(row.compulsory_bytes), f"{ratio:.2f}",
        ))  # fmt: skip
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return [
        "  ".join(cell.ljust(width) if not column else cell.rjust(width)
                  for column, (cell, width) in enumerate(zip(line, widths, strict=True))).rstrip()
        for line in cells
    ]  # fmt: skip


def _label(row: Row) -> str:
    unit = "prompt" if row.phase == "prompt" else "context"
    return f"{unit} {row.length:,}, batch {row.batch:,}"


def _shares(parts: dict[str, int], cycles: int) -> str:
    return ", ".join(
        f"{name} {value / cycles:.0%}" for name, value in parts.items() if value >= 0.005 * cycles
    )


def _advice(row: Row) -> str:
    """Advise by what bounds most of the time."""
    bound, cycles = next(iter(row.bounds.items()))
    share, least = cycles / row.cycles, row.bound_cycles[bound] / cycles
    if bound not in HELP:
        return f"{share:.0%} of the time in operations of which the compiler knows no bound"
    told = f"{share:.0%} of the time in operations that {NAMES[bound]} bounds"
    if least < 0.5:
        return f"{told}, in {1 / least:.1f} times what that needs: see `kpusim explain` of the models (-o)"
    more = f"{told} (at its peak {least:.0%} of it): {HELP[bound]}"
    shared = row.phase == "token" and bound == "dram" and row.weight_bytes > 0.5 * row.compulsory_bytes
    return f"{more}; a larger batch shares the weights" if shared else more


def _time(us: float) -> str:
    return f"{us / 1e6:.3f} s" if us >= 1e6 else f"{us / 1e3:.3f} ms"


def _energy(uj: float) -> str:
    if math.isnan(uj):
        return "-"
    return f"{uj / 1e6:.3f} J" if uj >= 1e6 else f"{uj / 1e3:.3f} mJ"


def _bytes(count: float) -> str:
    return f"{count / 2**30:.2f} GiB" if count >= 2**30 else f"{count / 2**20:.1f} MiB"


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.1f}" if value >= 10 else f"{value:.3f}"


def _flat(row: Row) -> dict[str, Any]:
    """Return a row as columns: parts and bounds in columns of their own."""
    named = {f.name: getattr(row, f.name) for f in fields(row)}
    for group in ("parts", "bounds", "bound_cycles"):
        for name, value in named.pop(group).items():
            named[f"{group}.{name or 'unknown'}"] = value
    return named


def _csv(rows: Iterable[dict[str, Any]]) -> str:
    rows = list(rows)
    names = list(dict.fromkeys(name for row in rows for name in row))
    file = io.StringIO()
    writer = csv.DictWriter(file, names, restval=0, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in row.items()} for row in rows)
    return file.getvalue()


def _cell(value: object) -> object:
    """Write floats without the last digits, which sums leave inexact."""
    return f"{value:.10g}" if isinstance(value, float) else value


def csv_of(found: Estimate) -> str:
    """Return a row for each step."""
    return _csv(map(_flat, found.rows))


def _pieces(found: Estimate) -> list[dict[str, Any]]:
    """Return a row for each piece: how often each step takes it, and its statistics."""
    rows = []
    for one, uses in found.pieces:
        counts = {f"count.{_label(found.rows[row])}": count for row, count in uses.items()}
        least = {
            "weight_bytes": one.weight_bytes,
            "cache_bytes": one.cache_read_bytes + one.cache_written_bytes,
        }
        rows.append({"piece": one.piece.name(), **counts, **least, **one.measured.stats})
    return rows


def json_of(found: Estimate) -> str:
    """Write all of it as JSON."""
    tree = {
        "schema": 1,
        "model": {**asdict(found.model), "layers": [
            {"count": count, **asdict(layer)} for layer, count in found.model.kinds().items()
        ]},
        "platform": found.platform.name,
        "precision": found.formats.precision,
        "kv": found.formats.cache,
        "routing": str(found.routing),
        "whole": found.whole,
        "rows": [asdict(row) for row in found.rows],
        "pieces": _pieces(found),
        "notes": found.notes,
    }  # fmt: skip
    return json.dumps(_without_nan(tree), indent=1) + "\n"


def _without_nan(value: Any) -> Any:
    """Return the same with null for what is no number, which JSON has no word for."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and math.isnan(value) else value


def prepared(folder: Path, force: bool) -> Path:
    """Return the folder of an estimate, made; its folder of models.

    Raises
    ------
    UserError
        When it holds anything; with `force`, anything that no estimate writes stays as it is.
    """
    models = folder / "models"
    try:
        if folder.is_dir() and any(folder.iterdir()) and not force:
            raise UserError(f"{folder} is not empty. Fix: give a new folder, or `kpusim llm --force`.")
        models.mkdir(parents=True, exist_ok=True)
        for old in models.iterdir():
            if re.fullmatch(MODEL_FILE.format(number=r"\d+", kind="(whole|head|layer)"), old.name):
                old.unlink()
    except OSError as error:
        raise _unwritten(folder, error) from error
    return models


def _unwritten(path: Path, error: OSError) -> UserError:
    return UserError(f"{path}: {error.strerror}. Fix: give a folder that can be written.")


def write(found: Estimate, folder: Path) -> None:
    """Write what :data:`FILES` lists.

    Raises
    ------
    UserError
        When a file cannot be written.
    """
    texts = (text_of(found), csv_of(found), _csv(_pieces(found)), json_of(found), found.platform.text())
    for name, text in zip(FILES, texts, strict=True):
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError as error:
            raise _unwritten(folder / name, error) from error
