"""Every operation of kernels on every type and edge value, as oracle.py has it; others are refused.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_operations
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

import numpy as np
import oracle

KPUSIM = os.environ["KPUSIM"]
TABLE = Path(__file__).resolve().parents[2] / "isa" / "kernel" / "operations.cpp"
SYMBOLS = ["||", "&&", "|", "^", "&", "==", "!=", "<", ">", "<=", ">=", "<<", ">>", "+", "-", "*", "/", "%"]
LANES = 32
Words = list[int]
DTYPES = {"f32": np.float32, "i32": np.int32}


def region_type(kind: str) -> str:
    """Element type of the region of a buffer."""
    return kind if kind in DTYPES else "u32"


def array(values: Words, kind: str) -> np.ndarray:
    """Return the words as the buffer holds them: u64 as two words."""
    wide = np.array(values, np.uint64)
    return wide.view(np.uint32) if kind == "u64" else wide.astype(np.uint32).view(DTYPES.get(kind, np.uint32))


class Operations(unittest.TestCase):
    """Kernels whose buffers are words in DDR."""

    def setUp(self) -> None:
        """A folder for the files."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = Path(folder.name)

    def run_kernel(self, text: str, inputs: dict[str, np.ndarray], outputs: dict[str, tuple[str, int]],
                   lanes: int, elems: dict[str, str]) -> dict[str, np.ndarray]:  # fmt: skip
        """Outputs: their element type in NEM, and elements. Inputs with type `elems`, u32 by default."""
        lines = ["program operations:", "#! kernels k.kern"]
        sizes = {
            name: (values.nbytes, elems.get(name, "u32"), values.size) for name, values in inputs.items()
        }
        for name, (elem, count) in outputs.items():
            sizes[name] = (count * (2 if "16" in elem else 1 if elem[1:] == "8" else 4), elem, count)
        for name, (size, elem, count) in sizes.items():
            for place, suffix in (("DDR", ""), ("L2", "_l2"), ("L1[0]", "_l1")):
                lines.append(f"buffer {name}{suffix} : {place} (size = {size}, align = 64)")
                lines.append(f"let r_{name}{suffix} = region({name}{suffix}, 0, {size}) elem={elem}, "
                             f"shape=[{count}], layout=N")  # fmt: skip
        command = [KPUSIM, "run", str(self.work / "p.nem"), "--platform", "npm_lite", "--mode", "functional"]
        for name, values in inputs.items():
            lines.append(f"t1_{name} = transfer.async(dst=r_{name}_l2, src=r_{name})")
            lines.append(f"t2_{name} = transfer.async(dst=r_{name}_l1, src=r_{name}_l2, deps=[t1_{name}])")
            np.save(self.work / f"{name}.npy", values)
            command += ["--input", f"{name}={self.work / name}.npy"]
        into = [name for name in outputs if name not in inputs]
        writes = ", ".join(f"r_{name}_l1" for name in [*(n for n in outputs if n in inputs), *into])
        reads = ", ".join(f"r_{name}_l1" for name in inputs)
        tokens = ", ".join(f"t2_{name}" for name in inputs)
        grid = -(-lanes // LANES)
        lines.append(f'launch = compute.async in {reads} out {writes} op="k" grid=[{grid}] deps=[{tokens}]')
        for name in outputs:
            lines.append(f"o1_{name} = store.async(dst=r_{name}_l2, src=r_{name}_l1, deps=[launch])")
            lines.append(f"o2_{name} = transfer.async(dst=r_{name}, src=r_{name}_l2, deps=[o1_{name}])")
        (self.work / "p.nem").write_text("\n".join(lines) + "\n")
        (self.work / "k.kern").write_text(text)
        result = subprocess.run([*command, "--force", "-o", str(self.work / "out")], check=False,
                                capture_output=True, text=True, timeout=120)  # fmt: skip
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        return {name: np.load(self.work / "out" / "outputs" / f"{name}.npy").ravel() for name in outputs}

    def compare(self, what: str, got: np.ndarray, wanted: list[int | None], kind: str, source: str) -> None:
        """Bit for bit; of min and max of zeros either zero."""
        for i, value in enumerate(wanted):
            if value is None:
                continue
            bits = int(got.view(np.uint64 if kind == "u64" else np.uint32)[i])
            if what[:3] in ("min", "max") and kind == "f32" and value & 0x7FFFFFFF == 0:
                bits, value = bits & 0x7FFFFFFF, 0
            self.assertEqual(f"{bits:x}", f"{value:x}", f"{what} of {source}, element {i}")

    def check(self, kind: str, texts: dict[str, str], values: tuple[Words, Words],
              wanted: dict[str, list[int | None]], guards: dict[str, str]) -> None:  # fmt: skip
        """Each text into a buffer of its own, for all pairs of values."""
        names = {text: f"o{n}" for n, text in enumerate(texts)}
        count = len(values[0])
        buffers = ", ".join(f"{names[text]}: output {result}[]" for text, result in texts.items())
        body = ""
        for text in texts:
            statement = f"{names[text]}[i] = {text}"
            guard = guards.get(text)
            body += f"if {guard}: {statement} endif\n" if guard else f"{statement}\n"
        kernel = (f"kernel k workgroup({LANES}) (p: read {kind}[], q: read {kind}[], {buffers}): "
                  f"let i = gid.x if i < len(p):\nlet a = p[i] let b = q[i]\n"
                  f"{body}endif endkernel")  # fmt: skip
        words = {text: 2 if result == "u64" else 1 for text, result in texts.items()}
        outputs = {names[text]: (region_type(result), count * words[text]) for text, result in texts.items()}
        inputs = {"p": array(values[0], kind), "q": array(values[1], kind)}
        got = self.run_kernel(kernel, inputs, outputs, count, dict.fromkeys("pq", region_type(kind)))
        for text, result in texts.items():
            self.compare(text, got[names[text]], wanted[text], result, kind)

    def test_pairs_and_singles(self) -> None:
        """All pairs of edge values of each type."""
        for kind, edges in oracle.EDGES.items():
            pairs = list(itertools.product(edges, edges))
            left, right = [a for a, b in pairs], [b for a, b in pairs]
            texts = [*oracle.pairs_of(kind), *oracle.singles_of(kind)]
            wanted: dict[str, list[int | None]] = {}
            with np.errstate(all="ignore"):
                for text in oracle.pairs_of(kind):
                    wanted[text] = [oracle.pair(text, kind, a, b) for a, b in pairs]
                for text in oracle.singles_of(kind):
                    wanted[text] = [oracle.single(text, kind, a) for a in left]
            guards = {}
            if kind == "i32":
                legal = "b != 0i32 && !(a == i32(0x80000000) && b == -1i32)"
                guards = {"a / b": legal, "a % b": legal}
            for some in batches(texts, 8):
                with self.subTest(kind=kind, texts=some):
                    self.check(kind, {text: oracle.result_of(text, kind) for text in some}, (left, right),
                               wanted, guards)  # fmt: skip

    def test_casts(self) -> None:
        """Between all types of values, where the cast is defined."""
        for kind, edges in oracle.EDGES.items():
            for to in oracle.EDGES:
                values = [value for value in edges if oracle.cast(value, kind, to) is not None]
                text = f"{to}(a)"
                if (kind, to) == ("u64", "f32"):
                    continue  # refused: test_what_has_no_meaning
                with self.subTest(kind=kind, to=to):
                    wanted = {text: [oracle.cast(value, kind, to) for value in values]}
                    self.check(kind, {text: to}, (values, values), wanted, {})

    def test_selection(self) -> None:
        """Selection goes by what is not zero."""
        for kind in ("u32", "bool"):
            values = oracle.EDGES[kind]
            wanted: dict[str, list[int | None]] = {"select(a, 5, 9)": [5 if value else 9 for value in values]}
            self.check(kind, {"select(a, 5, 9)": "u32"}, (values, values), wanted, {})

    def test_atomics(self) -> None:
        """The old value, and what is there afterwards."""
        pairs = list(itertools.product(oracle.INTEGERS, oracle.INTEGERS))
        memory, operands = (array([pair[i] for pair in pairs], "u32") for i in (0, 1))
        for text, change in oracle.ATOMICS.items():
            with self.subTest(text=text):
                kernel = (f"kernel k workgroup({LANES}) (m: read_write u32[], q: read u32[], "
                          f"o: output u32[]): let i = gid.x if i < len(q): let b = q[i] o[i] = {text} endif "
                          "endkernel")  # fmt: skip
                outputs = {"m": ("u32", len(pairs)), "o": ("u32", len(pairs))}
                got = self.run_kernel(kernel, {"m": memory, "q": operands}, outputs, len(pairs), {})
                self.assertTrue(np.array_equal(got["o"], memory))
                wanted = [change(m, b) & 0xFFFFFFFF for m, b in pairs]
                self.assertEqual([int(word) for word in got["m"]], wanted)

    def test_narrow_types(self) -> None:
        """Narrow types of 8 and 16 bits: every pattern, as f32 or words, and back."""
        patterns = np.arange(65536, dtype=np.uint16)
        cases = [
            ("f16", "f32", patterns.view(np.float16), patterns.view(np.float16).astype(np.float32)),
            ("bf16", "f32", patterns, (patterns.astype(np.uint32) << 16).view(np.float32)),
            ("u16", "u32", patterns, patterns),
            ("i16", "i32", patterns.view(np.int16), patterns.view(np.int16).astype(np.int32)),
            ("u8", "u32", patterns[:256].astype(np.uint8), patterns[:256]),
            ("i8", "i32", patterns[:256].astype(np.uint8).view(np.int8),
             patterns[:256].astype(np.uint8).view(np.int8).astype(np.int32)),
        ]  # fmt: skip
        for kind, to, values, wanted in cases:
            for part in range(0, values.size, 8192):
                some = values[part : part + 8192]
                bits = wanted[part : part + 8192]
                raw = bits.view(np.uint32) if to != "u32" else bits.astype(np.uint32)
                expected = [oracle.canonical(int(w)) if to == "f32" else int(w) for w in raw]
                kernel = (f"kernel k workgroup({LANES}) (p: read {kind}[], o: output {to}[]): "
                          f"if gid.x < len(p): o[gid.x] = {to}(p[gid.x]) endif endkernel")  # fmt: skip
                with self.subTest(kind=kind, part=part):
                    got = self.run_kernel(kernel, {"p": some}, {"o": (to, some.size)}, some.size, {"p": kind})
                    self.assertEqual([int(w) for w in got["o"].view(np.uint32)], expected)

    def test_halves_are_rounded_to_even(self) -> None:
        """f32 to f16, as NumPy; NaN is one."""
        rng = np.random.default_rng(3)
        edges = np.array([oracle.canonical(bits) for bits in oracle.EDGES["f32"]], np.uint32)
        ties = (rng.integers(0, 1 << 19, 1000) << 12).astype(np.uint32) + np.uint32(0x38000000)
        values = np.concatenate([edges, ties]).view(np.float32)
        kernel = (f"kernel k workgroup({LANES}) (p: read f32[], o: output f16[]): "
                  "if gid.x < len(p): o[gid.x] = f16(p[gid.x]) endif endkernel")  # fmt: skip
        got = self.run_kernel(kernel, {"p": values}, {"o": ("f16", values.size)}, values.size, {"p": "f32"})[
            "o"
        ]
        with np.errstate(all="ignore"):
            wanted = values.astype(np.float16)
        number = ~np.isnan(values)
        self.assertTrue(np.array_equal(got.view(np.uint16)[number], wanted.view(np.uint16)[number]))
        self.assertTrue(np.isnan(got[~number]).all())

    def test_fused_products_take_bits(self) -> None:
        """One rounding; a u32 is the bits of an f32."""
        edges = oracle.EDGES["f32"]
        pairs = list(itertools.product(edges, edges))
        rng = np.random.default_rng(1)
        addends = [int(bits) for bits in rng.choice(np.array(edges, np.uint64), len(pairs))]
        inputs = {name: array(values, "u32") for name, values in
                  (("p", [a for a, b in pairs]), ("q", [b for a, b in pairs]), ("r", addends))}  # fmt: skip
        kernel = (f"kernel k workgroup({LANES}) (p: read u32[], q: read u32[], r: read u32[], "
                  "o: output u32[]): let i = gid.x if i < len(p): let f = fma(p[i], q[i], r[i]) "
                  "o[i] = select(is_nan(f), 1, 0) "
                  "endif endkernel")  # fmt: skip
        got = self.run_kernel(kernel, inputs, {"o": ("u32", len(pairs))}, len(pairs), {})["o"]
        with np.errstate(all="ignore"):
            for i, ((a, b), c) in enumerate(zip(pairs, addends, strict=True)):
                x, y, z = (oracle.real(oracle.canonical(bits)) for bits in (a, b, c))
                self.assertEqual(int(got[i]), int(np.isnan(oracle.fused(x, y, z))), (a, b, c))

    def test_what_has_no_meaning(self) -> None:
        """Operations on types that the oracle has nothing for are refused."""
        every = {text for kind in oracle.EDGES for text in [*oracle.pairs_of(kind), *oracle.singles_of(kind)]}
        for kind, text in itertools.product(oracle.EDGES, sorted(every)):
            known = text in oracle.pairs_of(kind) or text in oracle.singles_of(kind)
            if known or (text.startswith("fma") and kind == "u32"):  # of bits: test_fused_products_take_bits
                continue
            self.refused(kind, text)
        self.refused("u64", "f32(a)")

    def refused(self, kind: str, text: str) -> None:
        """Check that `check` refuses it, with what to do."""
        kernel = (
            f"kernel k workgroup(1) (p: read {kind}[]): let a = p[0] let b = p[1] let c = {text} endkernel"
        )
        (self.work / "k.kern").write_text(kernel)
        (self.work / "p.nem").write_text("program p:\n#! kernels k.kern\n")
        result = subprocess.run([KPUSIM, "check", str(self.work / "p.nem")], check=False, capture_output=True,
                                text=True, timeout=60)  # fmt: skip
        self.assertEqual(result.returncode, 1, f"{text} of {kind}")
        self.assertRegex(result.stdout, r"k\.kern:1:\d+: error: .*(Fix: |Choose one)", f"{text} of {kind}")

    def test_the_oracle_has_every_operation(self) -> None:
        """Each row of the table of operations that computes with values."""
        texts = " ".join({*oracle.ATOMICS, *(t for k in oracle.EDGES for t in
                          [*oracle.pairs_of(k), *oracle.singles_of(k)])})  # fmt: skip
        table = TABLE.read_text()
        rows = re.findall(r'(?:two|one|real|rounding|atomic)\(Op::\w+, "(\w+)"', table)
        self.assertGreater(len(rows), 50)
        missing = [name for name in rows if f"{name}(" not in texts]
        self.assertEqual(missing, ["atomic_compare_exchange_weak", "atomic_fetch_nand"])  # both are refused
        symbols = re.findall(r'infix\(Op::\w+, "\w+", "\w+", "([^"]+)"', table)
        self.assertEqual(sorted(symbols), sorted(SYMBOLS))
        for symbol in SYMBOLS:
            self.assertIn(f"a {symbol} b", texts)


def batches(texts: list[str], most: int) -> list[tuple[str, ...]]:
    """Divide the texts, so many at a time."""
    return [tuple(texts[i : i + most]) for i in range(0, len(texts), most)]


if __name__ == "__main__":
    unittest.main()
