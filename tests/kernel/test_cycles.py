"""Cycles of kernels, computed by hand from the formula of model/vector/vector_unit.md.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_cycles
"""

from __future__ import annotations

import json
import unittest
from typing import NamedTuple

import numpy as np
from test_launch import Launch

LANES, BANKS, WIDTH = 8, 4, 64  # of layout WIDE
SETS = (f"engine.vector.lanes={LANES}", f"engine.l1.banks={BANKS}", f"engine.l1.bank_width_bytes={WIDTH}",
        f"engine.l1.interleave_bytes={WIDTH}")  # fmt: skip
STATEMENT, PLAIN, SPECIAL, PERMUTE, REDUCE, ATOMIC, BARRIER, SCALAR = (
    1,
    1,
    4,
    2,
    4,
    2,
    4,
    1,
)  # of the default table


def banks(elements: list[int], base: int = 0) -> int:
    """Return the cycles of one access of all lanes, `base` the address of the buffer, elements of 4 bytes."""
    total = 0
    for first in range(0, len(elements), LANES):
        words = {(base + 4 * e) // WIDTH for e in elements[first : first + LANES]}
        total += max(sum(w % BANKS == b for w in words) for b in range(BANKS))
    return total


class Layout(NamedTuple):
    """Lanes of the vector unit, banks of L1, bytes of a bank's word, bytes until the next bank."""

    lanes: int
    banks: int
    width: int
    interleave: int

    def sets(self) -> tuple[str, ...]:
        """Return the options of the command."""
        l1 = {"banks": self.banks, "bank_width_bytes": self.width, "interleave_bytes": self.interleave}
        return (f"engine.vector.lanes={self.lanes}", *(f"engine.l1.{key}={n}" for key, n in l1.items()))


WIDE = Layout(8, 4, 64, 64)  # 16 elements a word
NARROW = Layout(16, 8, 4, 4)  # a word is an element
BLOCKED = Layout(32, 2, 32, 128)  # 8 elements a word, 4 words of one bank after the other
SINGLE = Layout(4, 1, 16, 16)  # one bank, 4 elements a word

# Layout, body, invocations, cycles, how they come about: statement + operations + accesses, one term for each
# statement. o lies at byte 0 of L1, x at 1024.
BY_HAND = [
    # coalesced, strided and conflicting stores
    (WIDE, "o[lid.x] = 1", 8, 2, "1 + 0 + 1"),
    (WIDE, "o[lid.x * 16] = 1", 8, 4, "1 + 1 + 8 words over 4 banks"),
    (WIDE, "o[lid.x * 32 & 255] = 1", 8, 7, "1 + 2 + 8 words over 2 banks"),
    (WIDE, "o[lid.x * 64 & 255] = 1", 8, 7, "1 + 2 + 4 words of bank 0"),
    (WIDE, "o[lid.x + 12] = 1", 8, 3, "1 + 1 + two words of two banks"),
    (NARROW, "o[lid.x] = 1", 16, 3, "1 + 0 + 16 words over 8 banks"),
    (NARROW, "o[lid.x * 2] = 1", 16, 6, "1 + 1 + 16 words over 4 banks"),
    (NARROW, "o[lid.x * 8] = 1", 16, 18, "1 + 1 + 16 words of one bank"),
    (NARROW, "o[lid.x * 3] = 1", 16, 4, "1 + 1 + 16 words over 8 banks: 3 and 8 have no common divisor"),
    (NARROW, "o[lid.x * 9] = 1", 16, 4, "1 + 1 + 16 words over 8 banks: padded rows"),
    (NARROW, "o[15 - lid.x] = 1", 16, 4, "1 + 1 + 2: the order of lanes does not matter"),
    (NARROW, "o[0] = 1", 16, 2, "1 + 0 + one word that all share"),
    (NARROW, "o[lid.x / 4] = 1", 16, 6, "1 + 4 + 4 words of 4 banks"),
    (BLOCKED, "o[lid.x] = 1", 32, 5, "1 + 0 + 4 words of bank 0"),
    (BLOCKED, "o[lid.x * 2] = 1", 32, 6, "1 + 1 + 4 words of each bank"),
    (BLOCKED, "o[lid.x * 8] = 1", 32, 18, "1 + 1 + 16 words of each bank"),
    (BLOCKED, "o[lid.x + 16] = 1", 32, 4, "1 + 1 + 2 words of each bank"),
    (SINGLE, "o[lid.x] = 1", 8, 3, "1 + 0 + two groups of one word"),
    (SINGLE, "o[lid.x * 4] = 1", 8, 11, "1 + 2 + two groups of four words"),
    # loads, and several accesses of a statement
    (WIDE, "o[lid.x] = x[lid.x * 16] + x[lid.x]", 8, 1 + 2 + 1 + 2 + 1, "1 + 2 + (1 + 2 + 1)"),
    (NARROW, "o[lid.x] = x[lid.x * 8]", 16, 1 + 1 + 2 + 16, "1 + 1 + (2 + 16)"),
    (NARROW, "let a = x[x[lid.x] * 4 & 255]", 16, 1 + 2 + 2 + 8, "1 + 2 + (2 + 8): x[i] is i"),
    (BLOCKED, "o[lid.x] = x[lid.x]", 64, 1 + 2 * 4 * 2, "1 + 0 + two groups of (4 + 4)"),
    (SINGLE, "o[lid.x] = x[0]", 6, 1 + 2 + 2, "1 + 0 + two groups of (1 + 1)"),
    (NARROW, "o[lid.x + 250] = 1", 16, 1 + 1 + 1, "1 + 1 + six words that lie inside"),
    # operations, lanes that are not all busy
    (NARROW, "let a = sin(f32(lid.x))", 40, 1 + 3 * (1 + 4), "1 + three groups of (cast 1, function 4)"),
    (BLOCKED, "let a = lid.x / 3 + lid.x % 3", 33, 1 + 2 * (4 + 4 + 1), "1 + two groups of (4 + 4 + 1)"),
    (SINGLE, "let a = subgroup_add(lid.x)", 32, 1 + 8 * 4, "1 + eight groups of 4"),
    (WIDE, "let a = shuffle(lid.x, lid.x ^ 1)", 20, 1 + 3 * (2 + 1), "1 + three groups of (2 + 1)"),
    # divergence
    (NARROW, "if lid.x < 4: o[lid.x] = 1 else: o[lid.x * 2] = 2 endif", 16, 2 + 2 + 5,
     "(1 + 1) + (1 + 4 words of 4 banks) + (1 + 1 + 12 words over 4 banks)"),
    (NARROW, "if lid.x < 16: o[lid.x] = 1 else: o[lid.x * 2] = 2 endif", 16, 2 + 3,
     "(1 + 1) + (1 + 2): one side"),
    (BLOCKED, "if (lid.x & 1) == 1: let a = lid.x * 3 "
     "else: if (lid.x & 2) == 2: let b = 1 else: let c = 2 endif endif",
     32, 3 + 2 + 3 + 1 + 1, "(1 + 2) + (1 + 1) + (1 + 2) + 1 + 1: three ways, all paid"),
    (SINGLE, "loop i in 0..lid.x: o[lid.x * 4] = i endloop", 4, 1 + (1 + 1 + 3) + (1 + 1 + 2) + (1 + 1 + 1),
     "1 + trips of 3, 2 and 1 lanes, a word each"),
    (WIDE, "if lid.x == 3: return endif let a = lid.x + 1", 20, 1 + 3 + 1 + 1 + 3, "(1 + 3) + 1 + (1 + 3)"),
    # synchronisation
    (SINGLE, "o[lid.x] = 1 barrier let a = o[7 - lid.x]", 8, 3 + 5 + 5, "(1 + 2) + (1 + 4) + (1 + 2 + 2)"),
]  # fmt: skip


class Cycles(Launch):
    """Layout WIDE, unless a test has another one."""

    def cycles(
        self, body: str, size: int = 8, extra: str = "", sets: tuple[str, ...] = SETS, **options: object
    ) -> int:
        """Return the cycles that the unit is busy with the kernel, without what drains."""
        kernel = f"kernel k workgroup({size}) (x: read u32[], o: output u32[]{extra}): {body} endkernel"
        command = self.prepare(kernel, self.case(**options)) + [
            "--quiet",
            "--allow-hazards",
            "--force",
            "-o",
            str(self.work / "out"),
        ]
        for setting in sets:
            command += ["--set", setting]
        self.run_it(command)
        stats = json.loads((self.work / "out" / "stats.json").read_text())["stats"]
        self.assertEqual(stats["cycles.unattributed"]["value"], 0)
        self.stalled = sum(s["value"] for key, s in stats.items() if key.startswith("units.e0_vpu0.stalled."))
        self.useful = stats["units.e0_vpu0.busy.useful"]["value"]
        return self.useful + stats["units.e0_vpu0.busy.padding"]["value"]

    def test_by_hand(self) -> None:
        """Four layouts of lanes and banks."""
        for layout, body, invocations, cycles, why in BY_HAND:
            with self.subTest(body=body, layout=layout, why=why):
                self.assertEqual(self.cycles(body, invocations, sets=layout.sets()), cycles)

    def test_statements(self) -> None:
        """One statement, its operations, its accesses."""
        lanes = list(range(8))
        self.assertEqual(self.cycles("let a = 1"), STATEMENT)
        self.assertEqual(self.cycles("let a = lid.x + 1"), STATEMENT + PLAIN)
        self.assertEqual(self.cycles("let a = lid.x * 3 + 1"), STATEMENT + 2 * PLAIN)
        self.assertEqual(self.cycles("o[lid.x] = 7"), STATEMENT + banks(lanes))
        self.assertEqual(self.cycles("o[lid.x] = x[lid.x]"), STATEMENT + 2 * banks(lanes))
        self.assertEqual(self.cycles("let a = sqrt(f32(lid.x))"), STATEMENT + PLAIN + SPECIAL)
        self.assertEqual(self.cycles("let a = lid.x / (lid.x + 1)"), STATEMENT + PLAIN + SPECIAL)
        self.assertEqual(self.cycles("barrier"), STATEMENT + BARRIER)

    def test_lanes(self) -> None:
        """Twenty invocations are three groups of eight lanes."""
        lanes = list(range(20))
        self.assertEqual(self.cycles("let a = lid.x + 1", 20), STATEMENT + 3 * PLAIN)
        self.assertEqual(self.cycles("o[lid.x] = x[lid.x] + 1", 20), STATEMENT + 3 * PLAIN + 2 * banks(lanes))
        self.cycles("let a = lid.x + 1 let b = lid.x + 2 let c = lid.x + 3 let d = lid.x + 4", 20)
        self.assertEqual(self.useful, 4 * 20 // LANES)

    def test_banks(self) -> None:
        """Neighbours share a word, strides spread over banks, or fall onto one."""
        for stride in (1, 2, 4, 8, 16, 32):
            elements = [i * stride for i in range(8)]
            expected = STATEMENT + (0 if stride == 1 else PLAIN) + banks(elements)
            index = "lid.x" if stride == 1 else f"lid.x * {stride}"
            self.assertEqual(self.cycles(f"o[{index}] = 1"), expected, stride)
        self.assertEqual(banks([i * 32 for i in range(8)]), 4)  # a bank is asked for four words
        self.assertEqual(banks([i * 16 for i in range(8)]), 2)
        self.assertEqual(banks(list(range(8))), 1)
        self.assertEqual(
            self.cycles("o[lid.x + 12] = 1"), STATEMENT + PLAIN + banks([12 + i for i in range(8)])
        )

    def test_divergence(self) -> None:
        """Lanes that diverge pay for both sides."""
        condition = STATEMENT + PLAIN
        side = STATEMENT + PLAIN
        body = "if lid.x < {}: let a = lid.x + 1 else: let b = lid.x + 2 endif"
        self.assertEqual(self.cycles(body.format(4)), condition + 2 * side)
        self.assertEqual(self.cycles(body.format(8)), condition + side)
        self.assertEqual(self.cycles(body.format(0)), condition + side)

    def test_loops(self) -> None:
        """A loop is one statement and its trips; the longest lane counts."""
        trip = STATEMENT + PLAIN
        self.assertEqual(self.cycles("loop i in 0..5: let a = i + 1 endloop"), STATEMENT + 5 * trip)
        self.assertEqual(self.cycles("loop i in 0..lid.x: let a = i + 1 endloop"), STATEMENT + 7 * trip)
        self.assertEqual(
            self.cycles("let n = 3 while n != 0: n = n - 1 endwhile"), STATEMENT + 4 * trip + 3 * trip
        )

    def test_grid(self) -> None:
        """Workgroups go one after another."""
        self.assertEqual(self.cycles("let a = lid.x + 1", grid=(5, 2)), 10 * (STATEMENT + PLAIN))

    def test_atomics_and_scalars(self) -> None:
        """Atomics go one by one; a uniform buffer is read once for all."""
        reads = {"x": np.arange(256, dtype=np.uint32), "m": np.zeros(8, np.uint32)}
        writes = {"o": np.zeros(256, np.uint32), "m": np.zeros(8, np.uint32)}
        busy = self.cycles(
            "let a = atomic_add(m[0], 1)", 8, ", m: read_write u32[]", reads=reads, writes=writes
        )
        self.assertEqual(busy, STATEMENT + 8 * ATOMIC + 2 * banks([0] * 8))
        reads = {"x": np.arange(256, dtype=np.uint32), "q": np.ones(1, np.uint32)}
        busy = self.cycles("let a = q[0] + lid.x", 8, ", q: uniform u32[]", reads=reads)
        self.assertEqual(busy, STATEMENT + PLAIN + SCALAR)

    def test_copies_overlap_with_work(self) -> None:
        """The longer one of a copy and work counts; without a second buffer, their sum."""
        work = "loop i in 0..100: let a = i + 1 endloop"
        copy = 'async_load(x, t, 0, 1024, "t")'
        options = {"size": 1, "extra": ", t: workgroup u32[256]"}
        self.cycles(work, **options)
        before = self.stalled  # while the operands came from DDR: the launch had not started
        both = self.cycles(f'{copy} {work} async_wait("t")', **options)
        self.assertEqual(self.stalled, before)
        self.assertEqual(both, 2 * STATEMENT + STATEMENT + 100 * (STATEMENT + PLAIN))
        self.cycles(f'{copy} async_wait("t") {work}', **options)
        self.assertGreater(self.stalled, before + 16)

    def test_groups_of_lanes(self) -> None:
        """Exchanges between lanes, casts, selection, functions of two types: each has its class."""
        self.assertEqual(self.cycles("let a = shuffle(lid.x, 1)"), STATEMENT + PERMUTE)
        self.assertEqual(self.cycles("let a = subgroup_add(lid.x)"), STATEMENT + REDUCE)
        self.assertEqual(self.cycles("let a = ballot(lid.x < 3)"), STATEMENT + PLAIN + REDUCE)
        self.assertEqual(self.cycles("let a = select(lid.x < 3, lid.x, 7)"), STATEMENT + 2 * PLAIN)
        self.assertEqual(self.cycles("let a = fma(f32(lid.x), 2.0, 1.0)"), STATEMENT + 2 * PLAIN)
        self.assertEqual(self.cycles("let a = lid.x % 3"), STATEMENT + SPECIAL)
        self.assertEqual(
            self.cycles("let a = sin(f32(lid.x)) / 2.0", 20), STATEMENT + 3 * (PLAIN + 2 * SPECIAL)
        )
        self.assertEqual(self.cycles("let a = subgroup_add(lid.x)", 32), STATEMENT + 4 * REDUCE)


if __name__ == "__main__":
    unittest.main()
