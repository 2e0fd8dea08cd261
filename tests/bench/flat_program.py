"""NEM text of long programs without loops: every tile of a GEMM or of a chain of convolutions written out.

usage: python3 tests/bench/flat_program.py gemm|conv TASKS > FILE.nem

Correct: `kpusim check` finds nothing in them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

TILE = 32  # edge of a tile of the GEMM, int8
K_TILES = 8
COLUMNS = 16  # tiles
GEMM_TASKS = 5 * K_TILES + 3  # of an output tile

BLOCKS = 8  # of rows, of a layer of the chain
ROWS, WIDTH, CHANNELS = 8, 16, 8  # of a block
CONV_TASKS = 6 * BLOCKS + 2  # of a layer


def gemm(tasks: int) -> Iterator[str]:
    """Y = A.B in tiles, two output tiles in flight, two tiles of each operand on their way for each."""
    tiles = max(COLUMNS, tasks // GEMM_TASKS // COLUMNS * COLUMNS)
    depth, width, rows = K_TILES * TILE, COLUMNS * TILE, tiles // COLUMNS * TILE
    tile = TILE * TILE
    window = f"elem=i8, shape=[{TILE}, {TILE}]"
    yield f"""device "npm_lite.nem"
program flat_gemm:
#! tensor {{"id": "A", "role": "INPUT", "elem": "I8", "shape": [{rows}, {depth}], "buffer": "A"}}
#! tensor {{"id": "B", "role": "INPUT", "elem": "I8", "shape": [{depth}, {width}], "buffer": "B"}}
#! tensor {{"id": "Y", "role": "OUTPUT", "elem": "I8", "shape": [{rows}, {width}], "buffer": "Y"}}
buffer A : DDR (size = {rows * depth}, align = 64)
buffer B : DDR (size = {depth * width}, align = 64)
buffer Y : DDR (size = {rows * width}, align = 64)
buffer ab_l2 : L2 (size = {8 * tile}, align = 64)
buffer y_l2 : L2 (size = {2 * tile}, align = 64)
buffer ab_l1 : L1[0] (size = {8 * tile}, align = 64)
buffer acc_l1 : L1[0] (size = {8 * tile}, align = 64)
buffer y_l1 : L1[0] (size = {2 * tile}, align = 64)
"""
    for slot in range(2):
        yield (
            f"let acc{slot} = region(acc_l1, {4 * tile * slot}, {4 * tile}) elem=i32, shape=[{TILE}, {TILE}],"
            " layout=MN, quant=per_tensor(scale=0.0009765625, zero_point=0)\n"
            f"let out{slot} = region(y_l1, {tile * slot}, {tile}) {window}, layout=MN,"
            " quant=per_tensor(scale=1.0, zero_point=0)\n"
            f"let mid{slot} = region(y_l2, {tile * slot}, {tile}) {window}, layout=MN\n"
        )
        for k in range(2):
            for operand, (name, layout) in enumerate((("a", "MK"), ("b", "KN"))):
                place = f"{tile * (4 * slot + 2 * k + operand)}, {tile}"
                yield f"let {name}m{slot}{k} = region(ab_l2, {place}) {window}, layout={layout}\n"
                yield f"let {name}i{slot}{k} = region(ab_l1, {place}) {window}, layout={layout}\n"
    for t in range(tiles):
        yield from output_tile(t, depth, width, window)


def output_tile(t: int, depth: int, width: int, window: str) -> Iterator[str]:
    """The tasks of one tile of Y."""
    row, column, slot = t // COLUMNS * TILE, t % COLUMNS * TILE, t % 2

    def strided(buffer: str, y: int, x: int, pitch: int) -> str:
        return (
            f"region({buffer}, {y * pitch + x}, {(TILE - 1) * pitch + TILE}) {window}, strides=[{pitch}, 1]"
        )

    def after(*tokens: str) -> str:
        known = [token for token in tokens if token]
        return f" deps=[{', '.join(known)}]" if known else ""

    def token(name: str, tile: int, k: int = -1) -> str:
        """Name the token of an earlier K tile, or of the output tile that had the slot before."""
        if k < 0:
            tile, k = tile - 2, k + K_TILES
        return f"{name}{tile}_{k}" if tile >= 0 else ""

    for k in range(K_TILES):
        at = f"{slot}{k % 2}"
        for name, source in (
            ("a", strided("A", row, k * TILE, depth)),
            ("b", strided("B", k * TILE, column, width)),
        ):
            deps = ",".join(["", *([after(before)] if (before := token("f" + name, t, k - 2)) else [])])
            yield f"l{name}{t}_{k} = transfer.async(dst={name}m{at}, src={source}{deps})\n"
            deps = after(f"l{name}{t}_{k}", token("g", t, k - 2)).strip()
            yield f"f{name}{t}_{k} = transfer.async(dst={name}i{at}, src={name}m{at}, {deps})\n"
        last = token("g", t, k - 1) if k > 0 else (f"n{t - 2}" if t >= 2 else "")
        carried = f", acc{slot}" if k > 0 else ""
        deps = after(f"fa{t}_{k}", f"fb{t}_{k}", last)
        yield f"g{t}_{k} = gemm.acc.async in ai{at}, bi{at}{carried} out acc{slot} accum_type=i32{deps}\n"
    before = t >= 2
    deps = after(f"g{t}_{K_TILES - 1}", f"s{t - 2}" if before else "")
    yield f"n{t} = requant.async in acc{slot} out out{slot}{deps}\n"
    deps = after(f"n{t}", f"w{t - 2}" if before else "").strip()
    yield f"s{t} = store.async(dst=mid{slot}, src=out{slot}, {deps})\n"
    yield f"w{t} = transfer.async(dst={strided('Y', row, column, width)}, src=mid{slot}, deps=[s{t}])\n"


def conv(tasks: int) -> Iterator[str]:
    """Layers of 3x3 convolutions over one image, which goes to and fro between two buffers."""
    layers = max(2, tasks // CONV_TASKS)
    row = WIDTH * CHANNELS
    image, weights = BLOCKS * ROWS * row, 9 * CHANNELS * CHANNELS
    most, out = (ROWS + 2) * row, ROWS * row
    shape = f"1, {BLOCKS * ROWS}, {WIDTH}, {CHANNELS}"
    yield f"""device "npm_lite.nem"
program flat_conv:
#! tensor {{"id": "X", "role": "INPUT", "elem": "I8", "shape": [{shape}], "buffer": "X"}}
#! tensor {{"id": "F", "role": "INPUT", "elem": "I8", "shape": [{layers * weights}], "buffer": "F"}}
#! tensor {{"id": "Y", "role": "OUTPUT", "elem": "I8", "shape": [{shape}], "buffer": "{"XY"[layers % 2]}"}}
buffer X : DDR (size = {image}, align = 64)
buffer Y : DDR (size = {image}, align = 64)
buffer F : DDR (size = {layers * weights}, align = 64)
buffer f_l2 : L2 (size = {2 * weights}, align = 64)
buffer x_l2 : L2 (size = {2 * most}, align = 64)
buffer y_l2 : L2 (size = {2 * out}, align = 64)
buffer f_l1 : L1[0] (size = {2 * weights}, align = 64)
buffer x_l1 : L1[0] (size = {2 * most}, align = 64)
buffer y_l1 : L1[0] (size = {2 * out}, align = 64)
"""
    quant = "quant=per_tensor(scale=0.125, zero_point=0)"
    filters = f"elem=i8, shape=[3, 3, {CHANNELS}, {CHANNELS}], layout=HWIO"
    for slot in range(2):
        yield f"let fm{slot} = region(f_l2, {slot * weights}, {weights}) {filters}\n"
        yield f"let fi{slot} = region(f_l1, {slot * weights}, {weights}) {filters}, {quant}\n"
        block = f"elem=i8, shape=[1, {ROWS}, {WIDTH}, {CHANNELS}], layout=NHWC"
        yield f"let yi{slot} = region(y_l1, {slot * out}, {out}) {block}, {quant}\n"
        yield f"let ym{slot} = region(y_l2, {slot * out}, {out}) {block}\n"
        for rows in (ROWS + 1, ROWS + 2):
            block = f"elem=i8, shape=[1, {rows}, {WIDTH}, {CHANNELS}], layout=NHWC"
            yield f"let xi{slot}_{rows} = region(x_l1, {slot * most}, {rows * row}) {block}, {quant}\n"
            yield f"let xm{slot}_{rows} = region(x_l2, {slot * most}, {rows * row}) {block}\n"
    for buffer in "XY":
        for b in range(BLOCKS):
            first, end = max(b * ROWS - 1, 0), min((b + 1) * ROWS + 1, BLOCKS * ROWS)
            block = f"elem=i8, shape=[1, {end - first}, {WIDTH}, {CHANNELS}], layout=NHWC"
            yield f"let {buffer}r{b} = region({buffer}, {first * row}, {(end - first) * row}) {block}\n"
            block = f"elem=i8, shape=[1, {ROWS}, {WIDTH}, {CHANNELS}], layout=NHWC"
            yield f"let {buffer}w{b} = region({buffer}, {b * out}, {out}) {block}\n"
    for layer in range(layers):
        yield from conv_layer(layer, weights, filters)


def conv_layer(layer: int, weights: int, filters: str) -> Iterator[str]:
    """The tasks of one layer."""
    source, target, at = "XY"[layer % 2], "YX"[layer % 2], layer % 2
    free = f", deps=[e{layer - 2}]" if layer >= 2 else ""
    source_f = f"region(F, {layer * weights}, {weights}) {filters}"
    yield f"d{layer} = transfer.async(dst=fm{at}, src={source_f}{free})\n"
    free = f", c{layer - 2}_{BLOCKS - 1}" if layer >= 2 else ""
    yield f"e{layer} = transfer.async(dst=fi{at}, src=fm{at}, deps=[d{layer}{free}])\n"
    for b in range(BLOCKS):
        number = layer * BLOCKS + b
        rows = ROWS + 2 - (b in (0, BLOCKS - 1))
        slot = number % 2

        def earlier(name: str, number: int = number) -> list[str]:
            """Name the token of the block that had the slot before."""
            return [f"{name}{(number - 2) // BLOCKS}_{(number - 2) % BLOCKS}"] if number >= 2 else []

        made = [f"w{layer - 1}_{n}" for n in range(max(b - 1, 0), min(b + 2, BLOCKS)) if layer >= 1]
        deps = ", ".join(made + earlier("m"))
        after = f", deps=[{deps}]" if deps else ""
        yield f"l{layer}_{b} = transfer.async(dst=xm{slot}_{rows}, src={source}r{b}{after})\n"
        deps = ", ".join([f"l{layer}_{b}", *earlier("c")])
        yield f"m{layer}_{b} = transfer.async(dst=xi{slot}_{rows}, src=xm{slot}_{rows}, deps=[{deps}])\n"
        # one convolution after the other: the last of a layer says that its weights are free
        deps = ", ".join([f"m{layer}_{b}", f"e{layer}", *earlier("s"), *previous_conv(number)])
        pads = f"[{int(b == 0)}, 1, {int(b == BLOCKS - 1)}, 1]"
        yield (
            f"c{layer}_{b} = conv2d.async in xi{slot}_{rows}, fi{at} out yi{slot}"
            f" pads={pads} strides=[1, 1] dilations=[1, 1] accum_type=i32 deps=[{deps}]\n"
        )
        yield f"r{layer}_{b} = relu.async in yi{slot} out yi{slot} deps=[c{layer}_{b}]\n"
        deps = ", ".join([f"r{layer}_{b}", *earlier("w")])
        yield f"s{layer}_{b} = store.async(dst=ym{slot}, src=yi{slot}, deps=[{deps}])\n"
        yield f"w{layer}_{b} = transfer.async(dst={target}w{b}, src=ym{slot}, deps=[s{layer}_{b}])\n"


def previous_conv(number: int) -> list[str]:
    """Return the convolution of the block before."""
    return [f"c{(number - 1) // BLOCKS}_{(number - 1) % BLOCKS}"] if number >= 1 else []


def main() -> None:
    """Print the program."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=["gemm", "conv"])
    parser.add_argument("tasks", type=int, help="about so many")
    options = parser.parse_args()
    sys.stdout.writelines({"gemm": gemm, "conv": conv}[options.kind](options.tasks))


if __name__ == "__main__":
    main()
