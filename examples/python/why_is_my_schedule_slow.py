"""Why is my schedule slow? Find the cause of the array's idle cycles, change the schedule, measure again.

usage: python examples/python/why_is_my_schedule_slow.py
"""

from collections import Counter

import kpusim

# Y = A.B, int8 in, int32 sums: 16 tiles of 64 rows of A, each times the same B, which stays in L1.
PROGRAM = """
program gemm:
#! param WINDOW = 1 in [1..4]
const T = 64
const A_T = T * 256
const B_BYTES = 256 * T
const Y_T = T * T * 4
buffer A : DDR (size = 16 * A_T)
buffer B : DDR (size = B_BYTES)
buffer Y : DDR (size = 16 * Y_T)
buffer a_l2 : L2 (size = 4 * A_T)
buffer b_l2 : L2 (size = B_BYTES)
buffer y_l2 : L2 (size = 4 * Y_T)
buffer a_l1 : L1[0] (size = 4 * A_T)
buffer b_l1 : L1[0] (size = B_BYTES)
buffer y_l1 : L1[0] (size = 4 * Y_T)
let b_near = region(b_l1, 0, B_BYTES) elem=i8, shape=[256, T], layout=KN
load_b = transfer.async(dst=region(b_l2, 0, B_BYTES), src=region(B, 0, B_BYTES))
fetch_b = transfer.async(dst=region(b_l1, 0, B_BYTES), src=region(b_l2, 0, B_BYTES), deps=[load_b])
loop i in [0..15] @max_in_flight(WINDOW):
    let a_near = region(a_l1, (i mod 4) * A_T, A_T) elem=i8, shape=[T, 256], layout=MK
    let y_near = region(y_l1, (i mod 4) * Y_T, Y_T) elem=i32, shape=[T, T], layout=MN
    let a_middle = region(a_l2, (i mod 4) * A_T, A_T)
    let a_bytes = region(a_l1, (i mod 4) * A_T, A_T)
    let y_middle = region(y_l2, (i mod 4) * Y_T, Y_T)
    let y_bytes = region(y_l1, (i mod 4) * Y_T, Y_T)
    load = transfer.async(dst=a_middle, src=region(A, i * A_T, A_T))
    fetch = transfer.async(dst=a_bytes, src=a_middle, deps=[load])
    mul = gemm.acc.async in a_near, b_near out y_near accum_type=i32 deps=[fetch, fetch_b]
    keep = store.async(dst=y_middle, src=y_bytes, deps=[mul])
    save = transfer.async(dst=region(Y, i * Y_T, Y_T), src=y_middle, deps=[keep])
endloop
"""

ARRAY = "e0_nmu0"


def measure(title: str, window: int, **overrides: int) -> kpusim.Run:
    """Run with a window of so many iterations; say where the array's cycles went, and whom it waited for."""
    run = kpusim.simulate(PROGRAM, "npm_lite", fill=1, params={"WINDOW": window}, **overrides)
    print(f"\n{title}: {run.cycles:,} cycles")
    causes = run.stats.under(f"units.{ARRAY}")
    for cause, cycles in sorted(causes.items(), key=lambda item: -item[1])[:4]:
        print(f"  {cycles / run.cycles:6.1%}  {cause:32} {causes.stat(cause).meaning}")
    blamed: Counter[str] = Counter()
    intervals = run.events.intervals
    for unit, cause, cycles, blame in zip(
        intervals.unit, intervals.cause, intervals.cycles, intervals.blamed, strict=True
    ):
        if unit == ARRAY and cause.startswith("stalled"):
            blamed[blame.split("[")[0] or "-"] += int(cycles)
    print("  waits for:", ", ".join(f"{name} {cycles:,}" for name, cycles in blamed.most_common(3)))
    return run


def main() -> None:
    """From one iteration at a time to a schedule that DRAM bounds."""
    serial = measure("one iteration at a time", 1)
    double = measure("two in flight: transfers run behind the array", 2)
    deep = measure("four in flight", 4)
    print(f"\nspeedup {serial.cycles / double.cycles:.2f}x, then {serial.cycles / deep.cycles:.2f}x")

    # What bounds it now? Ask the units that are busiest, then ask what more of them would give.
    busy = {
        unit: sum(deep.stats.under(f"units.{unit}").under("busy").values()) / deep.cycles
        for unit in ("sdma0", "ddr0", ARRAY, "e0_dma0", "e0_cstl0")
    }
    print(
        "busy:", ", ".join(f"{unit} {share:.0%}" for unit, share in sorted(busy.items(), key=lambda i: -i[1]))
    )
    wider = measure("and twice the DRAM channels", 4, **{"ddr.channels": 4})
    print(f"\nwhat twice the channels would give: {deep.cycles / wider.cycles:.2f}x")


if __name__ == "__main__":
    main()
