"""Models of PyTorch, in memory or as files, as ONNX files."""

from __future__ import annotations

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import torch

from kpusim.errors import UserError
from kpusim.torch.capture import decomposed, exported, onnx_program


def exported_file(
    source: object, folder: Path, example_inputs: tuple[Any, ...] | None, *, trust: bool = False
) -> Path:
    """Write a model as an ONNX file.

    Parameters
    ----------
    source : path, torch.nn.Module or torch.export.ExportedProgram
        A ``.pt`` file holds a module, a ``.pt2`` file an exported program.
    folder : path
        Where to write.
    example_inputs : tuple of torch.Tensor, optional
        Of modules; exported programs have theirs.
    trust : bool
        Whether loading a file may run code.

    Raises
    ------
    UserError
        For files that need code, hold no model, or cannot be exported.
    """
    what = os.fspath(source) if isinstance(source, str | os.PathLike) else type(source).__name__
    model = load(Path(what), trust) if isinstance(source, str | os.PathLike) else source
    if isinstance(model, torch.nn.Module):
        if example_inputs is None:
            raise UserError(f"{what}: a module has no shapes. Fix: give example_inputs.")
        inputs = tuple(torch.as_tensor(value) for value in example_inputs)
        model = exported(model.eval(), inputs, what)
    if not isinstance(model, torch.export.ExportedProgram):
        raise UserError(
            f"{what}: no module, but {type(model).__name__}. Fix: save the model, not its weights."
        )
    path = folder / f"{Path(what).stem}.onnx"
    onnx_program(decomposed(model), what).save(path, external_data=True)
    return path


def load(path: Path, trust: bool) -> object:
    """Load what a file of PyTorch holds; without trust nothing in it is executed."""
    if is_exported_program(path):
        return torch.export.load(path)
    try:
        with torch.serialization.safe_globals(safe_classes()):
            return torch.load(path, map_location="cpu", weights_only=not trust)
    except pickle.UnpicklingError as error:
        why = str(error).splitlines()[0]
        raise UserError(
            f"{path}: the file needs code to be loaded, or is damaged ({why}). Fix: save it with "
            "torch.export.save, or give trust=True to the compiler if you know where it comes from."
        ) from error
    except (RuntimeError, OSError, EOFError, ValueError) as error:
        raise UserError(f"{path}: cannot be loaded: {error}. Fix: save it again.") from error


def is_exported_program(path: Path) -> bool:
    """Return whether torch.export.save wrote it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(
            name.endswith(("archive_format", "serialized_exported_program.json"))
            for name in archive.namelist()
        )


def safe_classes() -> list[Any]:
    """Layers of PyTorch: making one runs no code of the file."""
    modules = [value for value in vars(torch.nn).values() if isinstance(value, type)]
    return [kind for kind in modules if issubclass(kind, torch.nn.Module)]
