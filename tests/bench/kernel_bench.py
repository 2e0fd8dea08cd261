"""Lane-statements a CPU second of kernels, without time and with it.

usage: tests/bench/kernel_bench.py KPUSIM     the command, one line a kernel and mode

A lane-statement is a statement of one invocation. Time that the command takes without the kernel's loop is
subtracted.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path

LANES, TRIPS, GROUPS = 256, 200_000, 4
BODIES = {
    "integers": ("let a = gid.x", "a = a * 3 + i"),
    "floats": ("let a = f32(gid.x)", "a = fma(a, 1.0001, 0.5)"),
    "loads and stores": ("let a = gid.x", "o[gid.x] = o[gid.x] + a"),
}
PROGRAM = """device "npm_lite.nem"
program bench:
#! kernels k.kern
buffer x : L2 (size = 4)
buffer y : L1[0] (size = 4)
let x0 = region(x, 0, 4) elem=u32, shape=[1], layout=N
let x1 = region(y, 0, 4) elem=u32, shape=[1], layout=N
t = transfer.async(dst=x1, src=x0)
buffer o : DDR (size = {bytes})
buffer m : L2 (size = {bytes})
buffer s : L1[0] (size = {bytes})
let o0 = region(o, 0, {bytes}) elem=u32, shape=[{words}], layout=N
let o1 = region(m, 0, {bytes}) elem=u32, shape=[{words}], layout=N
let o2 = region(s, 0, {bytes}) elem=u32, shape=[{words}], layout=N
k = compute.async in x1 out o2 op="k" grid=[{groups}] deps=[t]
v = store.async(dst=o1, src=o2, deps=[k])
w = transfer.async(dst=o0, src=o1, deps=[v])
"""


def cpu_seconds(command: list[str]) -> float:
    """Of the command and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    """Measure."""
    words = LANES * GROUPS
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "bench.nem"
        program.write_text(PROGRAM.format(bytes=4 * words, words=words, groups=GROUPS))
        for name, (start, statement) in BODIES.items():
            for mode in ("functional", "values+timing"):
                command = [
                    sys.argv[1],
                    "run",
                    str(program),
                    "--quiet",
                    "--no-hazards",
                    "--fill",
                    "zeros",
                    "--mode",
                    mode,
                ]
                seconds = []
                for trips in (1, TRIPS):
                    body = f"{start} loop i in 0..{trips}: {statement} endloop"
                    text = f"kernel k workgroup({LANES}) (x: read u32[], o: output u32[]): {body} endkernel"
                    (Path(folder) / "k.kern").write_text(text)
                    seconds.append(min(cpu_seconds(command) for _ in range(2)))
                statements = words * (TRIPS - 1)
                rate = statements / max(seconds[1] - seconds[0], 1e-9) / 1e6
                print(f"{name:18} {mode:14} {rate:7.0f} million lane-statements a CPU second")


if __name__ == "__main__":
    main()
