"""Samples for calibration: in the order of the call, which is not that of dynamo's graph."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kpusim.errors import UserError
from kpusim.torch.arrays import to_array

Sample = Any


class Call:
    """The arguments of a call by their names, in its order.

    Parameters
    ----------
    function : callable or None
        What the user called; None where that is not known.
    arguments : sequence
        By position.
    keywords : mapping
        By name.
    """

    def __init__(self, function: Any, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> None:
        names = parameter_names(function, len(arguments))
        self.named = [*zip(names, arguments, strict=True), *keywords.items()]
        self.tensors = [leaf for _, value in self.named for leaf in leaves(value, value)]

    def values(self, sample: Sample) -> list[Any]:
        """Return what a sample has for each tensor of the call.

        Raises
        ------
        UserError
            When it has too few, too many, or others.
        """
        for given in self.readings(sample):
            try:
                found = list(given)
            except LookupError:
                continue
            if len(found) == len(self.tensors):
                return found
        raise UserError(
            f"a calibration sample has not the {len(self.tensors)} tensors of the call, ({self.text()}). "
            "Fix: give tuples of tensors in this order, or mappings of these names."
        )

    def readings(self, sample: Sample) -> Iterator[Iterator[Any]]:
        """The ways in which a sample may be meant: tensors one by one, by names, nested as arguments are."""
        if not isinstance(sample, Mapping | tuple | list):
            yield iter([sample])
            return
        if isinstance(sample, Mapping):
            names = [name for name, value in self.named if any(True for _ in leaves(value, value))]
            if set(names) <= set(sample) <= {name for name, _ in self.named}:
                yield (
                    leaf
                    for name, value in self.named
                    if name in names
                    for leaf in leaves(value, sample[name])
                )
        elif not any(isinstance(item, Mapping | tuple | list) for item in sample):
            yield iter(item for item in sample if is_array(item))
        values = [value for _, value in self.named]
        yield leaves(values, sample)
        with_tensors = [value for value in values if any(True for _ in leaves(value, value))]
        yield leaves(with_tensors, sample)
        if len(with_tensors) == 1:
            yield leaves(with_tensors[0], sample)

    def text(self) -> str:
        """Return the names, with the number of tensors where an argument holds several."""
        parts = []
        for name, value in self.named:
            count = sum(1 for _ in leaves(value, value))
            if count:
                parts.append(name if count == 1 else f"{name}: {count} tensors")
        return ", ".join(parts)


def parameter_names(function: Any, count: int) -> list[str]:
    """Return the names of so many positional arguments."""
    owner = getattr(function, "__self__", function)  # dynamo calls a method of modules
    target = owner.forward if isinstance(owner, torch.nn.Module) else function
    try:
        names = [
            name
            for name, parameter in inspect.signature(target).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):  # no function, or one without a signature
        names = []
    return [names[i] if i < len(names) else f"argument {i}" for i in range(count)]


def is_array(value: Any) -> bool:
    """Return whether it may stand for a tensor."""
    return isinstance(value, torch.Tensor | np.ndarray | np.generic)


def leaves(form: Any, value: Any) -> Iterator[Any]:
    """The parts of a value that stand where a form has tensors, in the order of the form.

    Raises
    ------
    LookupError
        Where they are nested in different ways.
    """
    if isinstance(form, torch.Tensor | np.ndarray):
        if isinstance(value, Mapping | tuple | list):
            raise LookupError
        yield value
    elif isinstance(form, Mapping):
        if not isinstance(value, Mapping) or set(value) != set(form):
            raise LookupError
        for key, inner in form.items():
            yield from leaves(inner, value[key])
    elif isinstance(form, tuple | list):
        if not isinstance(value, tuple | list) or len(value) != len(form):
            raise LookupError
        for inner, part in zip(form, value, strict=True):
            yield from leaves(inner, part)
    elif hasattr(form, "__dataclass_fields__"):
        for name in form.__dataclass_fields__:
            yield from leaves(getattr(form, name), getattr(value, name))


def ordered(samples: Sequence[Sample], call: Call, inputs: Sequence[torch.Tensor]) -> list[list[Any]]:
    """Put each sample in the order of the inputs of a graph.

    An input that is no argument of the call, such as a tensor of an outer function, is itself in each.
    """
    places = [place_of(tensor, call.tensors) for tensor in inputs]
    rows = []
    for sample in samples:
        values = call.values(sample)
        rows.append(
            [tensor if place is None else values[place] for place, tensor in zip(places, inputs, strict=True)]
        )
    return rows


def place_of(tensor: torch.Tensor, tensors: Sequence[Any]) -> int | None:
    """Find which of the tensors of a call it is; an array of NumPy is one with the same memory."""
    for place, other in enumerate(tensors):
        if other is tensor:
            return place
    for place, other in enumerate(tensors):
        if isinstance(other, np.ndarray) and other.ctypes.data == tensor.data_ptr():
            return place
    return None


def sample_folder(rows: Sequence[Sequence[Any]], names: Sequence[str], folder: Path) -> str:
    """Samples, each in the order of the names, as the files that calibration reads."""
    for index, values in enumerate(rows):
        for name, value in zip(names, values, strict=True):
            (folder / name).mkdir(exist_ok=True)
            np.save(folder / name / f"{index:06}.npy", to_array(torch.as_tensor(value)))
    return os.fspath(folder)
