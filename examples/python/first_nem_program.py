"""A first NEM program from Python: write it, run it, look inside, find out what it cost.

usage: python examples/python/first_nem_program.py
"""

import kpusim
import numpy as np
from kpusim.nem import NemInterpreter, TaskRecord

# y = relu(x) on 1,024 numbers, a tile of 256 at a time. Tasks are asynchronous; only tokens (load, fetch ...)
# order them. Two iterations may be in flight, so buffers have two slots.
PROGRAM = """
program relu:
const N = 256                       # elements of a tile
const T = N * 2                     # its bytes: f16
buffer x : DDR (size = 4 * T)
buffer y : DDR (size = 4 * T)
buffer x_l2 : L2 (size = 2 * T)
buffer y_l2 : L2 (size = 2 * T)
buffer tile_l1 : L1[0] (size = 2 * T)
loop i in [0..3] @max_in_flight(2):
    let source = region(x, i * T, T) elem=f16, shape=[N], layout=N
    let middle = region(x_l2, (i mod 2) * T, T) elem=f16, shape=[N], layout=N
    let tile = region(tile_l1, (i mod 2) * T, T) elem=f16, shape=[N], layout=N
    let result = region(y_l2, (i mod 2) * T, T) elem=f16, shape=[N], layout=N
    let target = region(y, i * T, T) elem=f16, shape=[N], layout=N
    load = transfer.async(dst=middle, src=source)
    fetch = transfer.async(dst=tile, src=middle, deps=[load])
    act = relu.async in tile out tile deps=[fetch]
    keep = store.async(dst=result, src=tile, deps=[act])
    save = transfer.async(dst=target, src=result, deps=[keep])
endloop
"""


def main() -> None:
    """Run the program in three ways."""
    x = np.linspace(-1, 1, 1024).astype(np.float16)

    # Values only: no device is needed.
    interpreter = NemInterpreter()
    interpreter.load(PROGRAM)
    outputs = interpreter.run({"x": x})
    assert np.array_equal(outputs["y"], np.maximum(x, 0))
    print("values are NumPy's:", outputs["y"][::200])

    # Step by step on a device: after each task, anything can be inspected.
    interpreter.load(PROGRAM, "npm_lite")
    interpreter.set_inputs({"x": x})
    while (task := interpreter.step()) is not None:
        print(f"cycle {task.cycle:5}  {task.unit:8} {task.name} ({task.iteration})")
        if task.name == "act":
            break
    print("tile of iteration 0:", interpreter.inspect("tile", i=0))
    record = interpreter.inspect("save")
    assert isinstance(record, TaskRecord)
    print(f"save: {record.state}, {record.completed} complete")

    # At once: values, cycles, the cause of every cycle, energy.
    run = kpusim.simulate(PROGRAM, "npm_lite", {"x": x})
    print(run)
    for key in ("cycles.total", "bytes.dram.read", "energy.total_uj"):
        print(f"{key}: {run.stats.stat(key)}")


if __name__ == "__main__":
    main()
