"""Files that several tests need: made once a tree, and anew whenever a source of them changes."""

from __future__ import annotations

import fcntl
import hashlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"


def contents(sources: Iterable[Path], *packages: str, also: str = "") -> str:
    """Return a digest of these files, of those in these folders, and of the releases of these packages."""
    digest = hashlib.sha256(also.encode())
    for source in sources:
        for path in sorted(source.rglob("*.py")) if source.is_dir() else [source]:
            digest.update(f"\n{path.relative_to(ROOT)} {path.stat().st_size}\n".encode())
            digest.update(path.read_bytes())
    for package in packages:
        digest.update(f"\n{package} {metadata.version(package)}".encode())
    return digest.hexdigest()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock the path: of tests that run at once, one makes it and the others wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.with_name(path.name + ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def value(path: Path, digest: str, make: Callable[[], Any]) -> Any:  # noqa: ANN401  (of any type)
    """Return what `make` gave in this tree when the sources were the same; kept in a file."""
    with locked(path):
        kept = path.read_bytes() if path.exists() else b""
        if kept.startswith(digest.encode()):
            return pickle.loads(kept[len(digest) :])
        found = make()
        part = path.with_name(path.name + ".part")
        part.write_bytes(digest.encode() + pickle.dumps(found))
        os.replace(part, path)
    return found


def file(path: Path, digest: str, make: Callable[[], None]) -> Path:
    """Return a file that `make` writes, with those beside it; a stamp says what sources it was made of."""
    stamp = path.with_name(path.name + ".made")
    with locked(path):
        if not (path.exists() and stamp.exists() and stamp.read_text() == digest):
            stamp.unlink(missing_ok=True)
            make()
            stamp.write_text(digest)
    return path
