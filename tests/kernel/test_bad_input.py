"""Kernels that are refused, each with what to do, and those without an end: never a crash, never a hang.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_bad_input
"""

from __future__ import annotations

import unittest

from test_launch import Launch

HEAD = "kernel k workgroup(8) (x: read u32[], o: output u32[], t: workgroup u32[64]): "
#: Mistakes: what is wrong, the body, and what `run` and `check` say.
BODIES = {
    "nesting": ("block: " * 65 + "endblock " * 65, "program nesting depth 65 exceeds max 64. Fix: flatten"),
    "statements": ("".join(f"let v{i} = 1 " for i in range(8193)),
                   "program node count exceeds limit 8192. Fix: split"),
    "depth": ("let v = 1" + " + 1" * 128, "expression nesting depth 129 exceeds max 128. Fix: split"),
    "parentheses": ("let v = " + "(" * 100000, "are nested more than 256 deep. Fix: split"),
    "buffer": ("z[0] = 1", "store to unknown buffer `z`. Fix: declare it in Program::buffers."),
    "loaded buffer": ("let v = z[0]", "load from unknown buffer `z`. Fix: declare it in Program::buffers."),
    "copied buffer": ('async_load(z, t, 0, 4, "t")',
                      "missing buffer declaration `z`. Fix: declare every async"),
    "store": ("x[0] = 1", "store to non-writable buffer `x`. Fix: declare it with BufferAccess::ReadWrite"),
    "copy": ('async_load(t, x, 0, 4, "t")', "store target `x` is not writable. Fix: declare it ReadWrite"),
    "types": ("let v = 1 + 1.0",
              "binary op `Add` received mismatched operands U32(1) and Float(1.0). Fix: insert"),
    "variable types": ("let v = x[0] + f32(x[1])", "mismatched operands `u32` and `f32`. Fix: insert"),
    "index": ("o[1.0] = 1", "index has type `f32` but must be `u32`. Fix: cast the index"),
    "copy size": ('async_load(x, t, 0, 1152921504606846976u64, "t") async_wait("t")',
                  "async load size exceeds host usize. Fix: reduce the async transfer span."),
    "copy offset": ('async_load(x, t, 1152921504606846976u64, 4, "t") async_wait("t")',
                    "async load source offset exceeds host usize. Fix: reduce the async transfer span."),
    "unaligned tuple": ("indirect_dispatch(x, 2)",
                        "indirect dispatch offset 2 is not 4-byte aligned. Fix: use a u32-aligned"),
    "barrier": ("if lid.x == 0: barrier endif",
                "barrier may be reached by only part of a workgroup. Fix: move"),
}  # fmt: skip
HEADS = {
    "workgroup": ("kernel k workgroup(0) (x: read u32[], o: output u32[]): endkernel",
                  "workgroup size contains zero. Fix: all dimensions must be >= 1."),
    "invocations": ("kernel k workgroup(65536, 65536) (x: read u32[], o: output u32[]): endkernel",
                    "workgroup invocation count overflows u32. Fix: reduce workgroup dimensions"),
    "workgroup memory": ("kernel k workgroup(1) (x: read u32[], o: output u32[], "
                         "t: workgroup u32[4294967295]): endkernel",
                         "exceeding the 67108864-byte reference budget. Fix: reduce workgroup"),
    "memory beyond L1": ("kernel k workgroup(1) (x: read u32[], o: output u32[], "
                         "t: workgroup u32[1000000]): endkernel",
                         "workgroup memory of kernel `k` needs 4000000 bytes, but L1 has"),
}  # fmt: skip


class BadInput(Launch):
    """All of it ends with exit 1 before anything runs."""

    def refused(self, kernel: str, said: str, **case: object) -> None:
        """Check that `check` and `run` refuse it, in both modes."""
        command = self.prepare(kernel, self.case(**case))
        for mode in ("functional", "values+timing"):
            text = self.run_it([*command, "--mode", mode], 1)
            self.assertIn(said, text)
            self.assertIn("Fix: ", text)

    def test_bodies(self) -> None:
        """Statements and expressions."""
        for name, (body, said) in BODIES.items():
            with self.subTest(name):
                self.refused(f"{HEAD}{body} endkernel", said)

    def test_heads(self) -> None:
        """Workgroups and their memory."""
        for name, (kernel, said) in HEADS.items():
            with self.subTest(name):
                self.refused(kernel, said)

    def test_grids(self) -> None:
        """Grids as large as no counter is are refused in each axis."""
        kernel = f"{HEAD}o[gid.x] = 1 endkernel"
        said = "workgroup * dispatch dimensions overflow u32 global id. Fix: reduce workgroup id"
        for grid in ((2**40,), (1, 2**40), (1, 1, 2**40)):
            with self.subTest(grid):
                self.refused(kernel, said, grid=grid)
        self.refused(kernel, "the grid has more than 281474976710656 workgroups", grid=(2**20, 2**20, 2**20))
        self.refused(kernel, "the grid has -1 workgroups along axis 1", grid=(1, -1))

    def test_an_unaligned_operand(self) -> None:
        """A region of words that begins between two of them."""
        command = self.prepare(f"{HEAD}o[gid.x] = x[gid.x] endkernel", self.case())
        program = self.work / "p.nem"
        text = program.read_text().replace("region(x_L1, 0, 1024)", "region(x_L1, 2, 1020)")
        program.write_text(text.replace("region(x_L1, 2, 1020) elem=u32, shape=[256]",
                                        "region(x_L1, 2, 1020) elem=u32, shape=[255]"))  # fmt: skip
        self.assertIn("Fix: ", self.run_it(command, 1))

    def test_size_of_a_copy_at_run_time(self) -> None:
        """Known only then: a device fault."""
        body = 'async_load(x, t, 0, u64(x[gid.x]) << 50u64, "t") async_wait("t")'
        command = self.prepare(f"{HEAD}{body} endkernel", self.case())
        said = "async load size exceeds host usize. Fix: reduce the async transfer span."
        for mode in ("functional", "values+timing"):
            self.assertIn(said, self.run_it([*command, "--mode", mode], 2))

    def test_without_an_end(self) -> None:
        """Exit 2; what was computed is written."""
        command = self.prepare(f"{HEAD}o[gid.x] = 1 while true: endwhile endkernel", self.case())
        for name, options in (("functional", ("--mode", "functional", "--max-steps", "100000")),
                              ("timed", ("--max-cycles", "100000"))):  # fmt: skip
            folder = self.work / name
            self.run_it([*command, *options, "-o", str(folder)], 2)
            self.assertIn('"complete":false', (folder / "stats.json").read_text().replace(" ", ""))


if __name__ == "__main__":
    unittest.main()
