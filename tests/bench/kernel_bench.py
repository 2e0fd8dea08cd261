"""Lane-statements a CPU second of kernels, without time and with it, and a product of tiles.

usage: tests/bench/kernel_bench.py KPUSIM     the command, one line a kernel and mode

A lane-statement is a statement of one invocation. Time that the command takes without the kernel's loop is
subtracted. The product is 1024^3 in f32, of blocks of 128 that are copied while others are multiplied.
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
BLOCK_BYTES = 4 * 128 * 128
#: Steps i: block (i / 64, i % 8) of a by (i % 8, i / 8 % 8) of b; each 8 give one of c.
PRODUCT = """kernel k rules(xla) workgroup(1)
 (a: read f32[1048576], b: read f32[1048576], c: write f32[1048576],
  x: workgroup f32[32768], y: workgroup f32[32768], z: workgroup f32[16384], s: workgroup u32[5]):
let next = 0i32 let sum = broadcast_to{{128, 128}}(0.0)
loop i in 0i32..{trips}:
  while next <= i + 1i32 && next < 512i32:
    let to = next % 2i32
    let row = next / 64i32 * 128i32 let column = next / 8i32 % 8i32 * 128i32 let k = next % 8i32 * 128i32
    async_copy(a, x, window{{1024, 1024, 128, 128}}(row, k),
               window{{2, 128, 128, 1, 128, 128}}(to, 0i32, 0i32), s[to])
    async_copy(b, y, window{{1024, 1024, 128, 128}}(k, column),
               window{{2, 128, 128, 1, 128, 128}}(to, 0i32, 0i32), s[to + 2i32])
    next = next + 1i32
  endwhile
  let slot = i % 2i32
  wait(s, slot, {bytes}i32) wait(s, slot + 2i32, {bytes}i32)
  sum = sum + dot{{f32, 1, 1, 1, 0, 0, 0}}(
    reshape{{128, 128}}(x[window{{2, 128, 128, 1, 128, 128}}(slot, 0i32, 0i32)]),
    reshape{{128, 128}}(y[window{{2, 128, 128, 1, 128, 128}}(slot, 0i32, 0i32)]))
  if i % 8i32 == 7i32:
    if i > 8i32: wait(s, 4i32, {bytes}i32) endif
    z[window{{128, 128}}()] = sum
    async_copy(z, c, window{{128, 128}}(),
               window{{1024, 1024, 128, 128}}(i / 64i32 * 128i32, i / 8i32 % 8i32 * 128i32), s[4i32])
    sum = broadcast_to{{128, 128}}(0.0)
  endif
endloop
wait(s, 4i32, {bytes}i32)
if next > {trips}: wait(s, 0i32, {bytes}i32) wait(s, 2i32, {bytes}i32) endif
endkernel
"""
PRODUCT_PROGRAM = """program product:
#! kernels k.kern
buffer a : DDR (size = 4194304)
buffer b : DDR (size = 4194304)
buffer c : DDR (size = 4194304)
let a0 = region(a, 0, 4194304) elem=f32, shape=[1048576], layout=N
let b0 = region(b, 0, 4194304) elem=f32, shape=[1048576], layout=N
let c0 = region(c, 0, 4194304) elem=f32, shape=[1048576], layout=N
k = compute.async in a0, b0 out c0 op="k"
"""


def cpu_seconds(command: list[str]) -> float:
    """Measure the command and what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def product(kpusim: str, folder: str) -> None:
    """The product, on a device with room for its blocks."""
    program = Path(folder) / "product.nem"
    program.write_text(PRODUCT_PROGRAM)
    for mode in ("functional", "values+timing"):
        command = [kpusim, "run", str(program), "--platform", "core128-hbm2", "--quiet", "--fill", "random:1"]
        command.append("--allow-hazards")  # the few trips leave most of c unwritten
        seconds = []
        for trips in (8, 512):
            kernel = PRODUCT.format(trips=f"{trips}i32", bytes=BLOCK_BYTES)
            (Path(folder) / "k.kern").write_text(kernel)
            seconds.append(min(cpu_seconds([*command, "--mode", mode]) for _ in range(5)))
        print(f"{'product 1024^3':18} {mode:14} {(seconds[1] - seconds[0]) * 512 / 504:7.3f} s of CPU time")


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
        product(sys.argv[1], folder)


if __name__ == "__main__":
    main()
