"""Exported kernels with a mistake in their copies: a wait or signal that is missing, the other slot."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Mutant:
    """A changed document.

    Attributes
    ----------
    name : str
        What was changed, and where.
    document : dict
        The export.
    lines : set of str
        ``file:line`` of the statements that are at fault: what is said has to name one of them.
    """

    name: str
    document: Json
    lines: frozenset[str]


def equations(block: Json) -> Iterator[tuple[list[Json], int]]:
    """All of a block and of those inside it: the list that each one stands in, and where."""
    for at, equation in enumerate(block["equations"]):
        yield block["equations"], at
        for inner in equation.get("blocks", []):
            yield from equations(inner)


def bodies(document: Json) -> Iterator[tuple[Json, list[Json], int]]:
    """Every equation of every call."""
    for step in document["steps"]:
        if "call" in step:
            for where, at in equations(step["call"]["body"]):
                yield step["call"], where, at


def place(document: Json, equation: Json) -> str:
    """``file:line`` of an equation."""
    return str(document["lines"][equation["line"]].partition(" ")[0])


def semaphore(equation: Json) -> int:
    """Return the variable of the semaphores of a copy, wait or signal."""
    return int(equation["refs"][-1]["ref"])


def users(document: Json, variable: int, *operations: str) -> frozenset[str]:
    """Return where a semaphore is used in this way."""
    found = (where[at] for _, where, at in bodies(document))
    return frozenset(
        place(document, equation)
        for equation in found
        if equation["op"] in operations and semaphore(equation) == variable
    )


def removed(document: Json) -> Iterator[Mutant]:
    """Each wait for a copy, and each signal, left out."""
    blamed = {"dma_wait": ("dma_start",), "semaphore_signal": ("semaphore_wait",)}
    blamed["semaphore_wait"] = ("semaphore_signal",)
    for number, (_, where, at) in enumerate(list(bodies(document))):
        equation = where[at]
        if equation["op"] not in blamed:
            continue
        changed = copy.deepcopy(document)
        _, inside, place_there = list(bodies(changed))[number]
        del inside[place_there]
        lines = users(document, semaphore(equation), *blamed[equation["op"]])
        yield Mutant(f"no {equation['op']} of {place(document, equation)}", changed, lines)


def slot_of(call: Json, ref: Json) -> list[Any] | None:
    """Return the indices of a ref to one of two slots, of which the first is the slot."""
    for name, indices in ref.get("at", [])[:1]:
        first = indices[0] if name == "index" and indices else None
        is_number = isinstance(first, int) or (isinstance(first, list) and first[0] != "slice")
        shape = call["types"][call["vars"][ref["ref"]]]["shape"]
        if is_number and shape[0] == 2:
            return list(indices)
    return None


def swap_slot(call: Json, where: list[Json], at: int, indices: list[Any]) -> None:
    """1 - slot in its place."""
    slot = indices[0]
    if isinstance(slot, list):
        indices[0] = [slot[0], 1 - slot[1]]
        return
    its_type = call["vars"][slot]
    other = len(call["vars"])
    call["vars"].append(its_type)
    indices[0] = other
    one = [call["types"][its_type]["type"], 1]
    where.insert(at, {"op": "sub", "in": [one, slot], "out": [other], "line": where[at]["line"]})


def swapped(document: Json) -> Iterator[Mutant]:
    """Each access, copy and wait with the other slot. Of a wait only the semaphore has one that matters."""
    for number, (call, where, at) in enumerate(list(bodies(document))):
        equation = where[at]
        if equation["op"] not in ("get", "swap", "dma_start", "dma_wait"):
            continue
        for which, ref in enumerate(equation["refs"]):
            slot = slot_of(call, ref)
            if slot is None or (equation["op"] == "dma_wait" and which != 2):
                continue
            if equation["op"] in ("get", "swap") and not isinstance(slot[0], int):
                continue  # no pipeline: another place, not another time
            changed = copy.deepcopy(document)
            its_call, inside, there = list(bodies(changed))[number]
            swap_slot(its_call, inside, there, inside[there]["refs"][which]["at"][0][1])
            lines = {place(document, equation)}
            if equation["op"] == "dma_wait":
                lines |= users(document, semaphore(equation), "dma_start")
            name = f"slot {which} of {equation['op']} of {place(document, equation)}"
            yield Mutant(name, changed, frozenset(lines))
