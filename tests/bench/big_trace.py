"""Time, size and peak memory of each trace of a long recording: one of an example, repeated.

usage: big_trace.py KPUSIM [--records N] [--folder FOLDER] [--only FORMAT ...]
The folder needs room for 32 bytes of each record twice, and for a VCD of about as much.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

import numpy as np

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "gemm_relu" / "gemm_relu.nem"
RECORD = np.dtype(
    [("time", "<u8"), ("value", "<i8"), ("task", "<u4"), ("op", "<u4"), ("unit", "<u2"), ("kind", "u1"),
     ("cause", "u1"), ("reserved", "<u4")]
)  # fmt: skip
KINDS = "issue loop ready begin end cause counter flow op energy active work access".split()
KIND = {name: number for number, name in enumerate(KINDS)}
NO_TASK, BYTES = 0xFFFFFFFF, 2
FORMATS = {
    "vcd": ["--vcd"],
    "fst": ["--fst"],
    "vcd every 10us": ["--trace-every", "10us", "--vcd"],
    "fst every 10us": ["--trace-every", "10us", "--fst"],
    "power": ["--bin-ns", "10000", "--power"],
    "stalls": ["--stalls"],
    "perfetto every 10us": ["--trace-every", "10us", "--perfetto"],
}


def repeated(events: Path, path: Path, least: int) -> int:
    """Writes the recording as often as it takes for `least` records; how many there are."""
    data = events.read_bytes()
    size = int.from_bytes(data[16:24], "little")
    info = json.loads(data[32 : 32 + size])
    records = np.frombuffer(data[32 + size : -4], RECORD)
    records = records[records["time"] < info["end_ps"]]
    times = -(-least // len(records))
    of_task = np.isin(
        records["kind"], [KIND[k] for k in "issue loop ready begin end cause flow work".split()]
    )
    of_task &= records["task"] != NO_TASK
    tasks = int(records["task"][of_task].max()) + 1
    step = np.zeros(len(records), RECORD)  # what the next repetition has more
    step["time"] = info["end_ps"]
    step["task"][of_task] = tasks
    step["value"][records["kind"] == KIND["flow"]] = tasks
    blames_task = (records["kind"] == KIND["cause"]) & (records["value"] >= 0) & (records["value"] % 2 == 0)
    step["value"][blames_task] = 2 * tasks
    causes = np.isin(records["kind"], [KIND["issue"], KIND["ready"]]) & (records["reserved"] != 0)
    step["reserved"][causes] = tasks
    sums = (records["kind"] == KIND["counter"]) & (records["cause"] == BYTES)
    for unit in np.unique(records["unit"][sums]):
        mine = sums & (records["unit"] == unit)
        step["value"][mine] = records["value"][mine].max()
    info["end_ps"] *= times
    info["total_cycles"] *= times
    description = json.dumps(info, sort_keys=True, separators=(",", ":")).encode()
    head = data[:16] + len(description).to_bytes(8, "little")
    head += (times * len(records)).to_bytes(8, "little") + description
    checksum = zlib.crc32(head)
    with path.open("wb") as file:
        file.write(head)
        part = records.copy()
        for _ in range(times):
            file.write(part.tobytes())
            checksum = zlib.crc32(part.tobytes(), checksum)
            for name in ("time", "value", "task", "reserved"):
                part[name] += step[name]
        file.write(checksum.to_bytes(4, "little"))
    return times * len(records)


def peak_of(command: list[str]) -> tuple[float, float]:
    """Seconds and MiB that it takes."""
    begin = time.monotonic()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        sys.exit(f"error: {' '.join(command)} failed. Fix: see its message above.")
    return time.monotonic() - begin, usage.ru_maxrss / 1024


def main() -> None:
    """A table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("kpusim")
    parser.add_argument("--records", type=int, default=100_000_000)
    parser.add_argument("--folder", default=None)
    parser.add_argument("--only", nargs="*", choices=FORMATS, default=list(FORMATS))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as work:
        os.environ["TMPDIR"] = work
        small, events, trace = (Path(work) / name for name in ("small", "events", "trace"))
        run = [options.kpusim, "run", EXAMPLE, "--mode", "timing", "--quiet", "--events", small]
        subprocess.run(run, check=True)
        count = repeated(small, events, options.records)
        print(f"{count:,} records, {events.stat().st_size / 2**20:,.0f} MiB\n")
        print("| trace | MiB | seconds | peak MiB |\n|---|---|---|---|")
        for name in options.only:
            command = [options.kpusim, "export", str(events), *FORMATS[name], str(trace)]
            seconds, peak = peak_of(command)
            print(
                f"| {name} | {trace.stat().st_size / 2**20:,.1f} | {seconds:.0f} | {peak:.0f} |", flush=True
            )


if __name__ == "__main__":
    main()
