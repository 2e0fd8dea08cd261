"""Rows that are held out of a fit, to see how it does on what it has not seen."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from kpusim.calibrate.measured import Row
from kpusim.errors import UserError

LARGE = 4  #: of `size`, one row in so many is held out: the longest


@dataclass(frozen=True)
class Split:
    """Rows that are held out together.

    Attributes
    ----------
    name : str
        What they have in common.
    held : tuple of int
        Their positions.
    """

    name: str
    held: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Rows that are held out.

    Attributes
    ----------
    splits : tuple of Split
        Each is held out of a fit of its own.
    in_turn : bool
        Whether the platform is fitted to all rows; otherwise to those that the one split leaves.
    """

    splits: tuple[Split, ...]
    in_turn: bool


def plan_of(text: str | None, rows: Sequence[Row], seed: int) -> Plan:
    """Parse ``--hold-out``: ``size``, ``type``, ``class`` or a fraction such as 0.25.

    Raises
    ------
    UserError
        For another word, and for an axis on which the rows do not differ.
    """
    if text is None:
        return Plan((), True)
    if text == "size":
        ordered = sorted(range(len(rows)), key=lambda i: rows[i].measured)
        count = max(1, len(rows) // LARGE)
        return Plan((Split("the longest quarter", tuple(sorted(ordered[-count:]))),), False)
    if text in ("type", "class"):
        keys = [row.type or "its own" if text == "type" else row.group for row in rows]
        names = list(dict.fromkeys(keys))
        if len(names) < 2:
            raise UserError(f"all rows are of one {text}, `{names[0]}`. Fix: hold out size, or a fraction.")
        splits = (Split(name, tuple(i for i, key in enumerate(keys) if key == name)) for name in names)
        return Plan(tuple(splits), True)
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share < 1:
        raise UserError(
            f"--hold-out `{text}`: nothing is held out by that. Fix: give size, type, class, or 0.25."
        )
    count = max(1, round(share * len(rows)))
    chosen = random.Random(seed).sample(range(len(rows)), count)
    return Plan((Split(f"{100 * share:g} % by seed {seed}", tuple(sorted(chosen))),), False)
