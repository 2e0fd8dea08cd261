#!/usr/bin/env python3
"""Runs random programs with two builds of the command, and compares their statistics and recorded events.

    compare_runs.py RANDOM_PROGRAMS OLD NEW [COUNT]

RANDOM_PROGRAMS is the tool of that name in the build tree; COUNT programs (400) on each of four platforms.
Events of equal time may stand in another order. Prints a digest of all that was
compared, and the first program that differs.
"""

import hashlib
import json
import struct
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PLATFORMS = ("npm_lite", "npm_mid", "tile32", "edge16")
HEADER, TRAILER = 32, 4
RECORD = 32


def result_of(command: str, program: Path, platform: str, folder: Path) -> bytes:
    """Return what a run leaves: exit code, statistics, sorted events, and the units and work they name."""
    out = folder / "out"
    events = folder / "events.kpuev"
    run = subprocess.run(
        [
            command,
            "run",
            program,
            "--platform",
            platform,
            "--fill",
            "random:1",
            "-o",
            out,
            "--force",
            "--quiet",
            "--events",
            events,
        ],
        capture_output=True,
        check=False,
    )
    if not events.exists():
        return run.stdout + run.stderr
    stats = json.loads((out / "stats.json").read_text())
    data = events.read_bytes()
    info_bytes, count = struct.unpack_from("<QQ", data, 16)
    start = HEADER + info_bytes
    records = sorted(data[start + RECORD * i : start + RECORD * (i + 1)] for i in range(count))
    outputs = b"".join(path.read_bytes() for path in sorted((out / "outputs").glob("*.npy")))
    info = data[HEADER:start]
    return json.dumps(stats, sort_keys=True).encode() + b"".join(records) + info + outputs


def main() -> int:
    """Compare every program on every platform."""
    generator, old, new = sys.argv[1:4]
    count = sys.argv[4] if len(sys.argv) > 4 else "400"
    digest = hashlib.sha256()
    different = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        programs = []
        for platform in PLATFORMS:
            (root / platform).mkdir()
            subprocess.run([generator, platform, "1", count, root / platform], check=True)
            programs += [(platform, path) for path in sorted((root / platform).glob("*.kpu"))]

        def compare(item: tuple[str, Path]) -> tuple[str, bytes, bytes]:
            platform, program = item
            results = []
            for command in (old, new):
                with tempfile.TemporaryDirectory(dir=root) as place:
                    results.append(result_of(command, program, platform, Path(place)))
            return f"{platform} {program.stem}", results[0], results[1]

        with ThreadPoolExecutor(2) as pool:
            for name, before, after in pool.map(compare, programs):
                digest.update(after)
                if before != after:
                    different.append(name)
    print(
        f"{len(programs)} programs, {len(different)} differ, sha256 of the new results {digest.hexdigest()}"
    )
    if different:
        print("first:", different[0])
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
