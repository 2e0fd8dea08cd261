"""Mappings that a person fixes: what is wished is done, or refused with the reason; values stay.

usage: test_mapping.py KPUSIM [unittest options]; or with the command in the variable KPUSIM
"""

from __future__ import annotations

import json
import random
import sys
import unittest
from pathlib import Path
from typing import Any

import page
import test_networks
from test_networks import DIGITS, EXAMPLES, Folder, command, cycles, done, rows

INT8 = ["--precision", "int8", "--calibrate", str(EXAMPLES / "calibration"), "--dim", "batch=16"]
RANDOM = 24  # mappings of each device
Mapping = dict[str, dict[str, Any]]


class Mappings(Folder):
    """The digits in int8, whose sums are exact: no mapping may change a bit."""

    chosen: dict[str, Mapping]
    outputs: dict[str, bytes]

    @classmethod
    def setUpClass(cls) -> None:
        """Compute what the compiler chooses by itself."""
        super().setUpClass()
        cls.chosen, cls.outputs = {}, {}
        for device in ("tile32", "npm_lite"):
            path = cls.folder / f"{device}.json"
            done("compile", DIGITS, *INT8, "--platform", device, "--write-mapping", str(path),
                 "-o", str(cls.folder / f"{device}.kpu"))  # fmt: skip
            cls.chosen[device] = json.loads(path.read_text())
            cls.outputs[device] = cls.run_program(cls.folder / f"{device}.kpu")

    @classmethod
    def run_program(cls, program: Path) -> bytes:
        """Return the output; no race, no undeclared overlap."""
        out = program.with_suffix("")
        done("check", "--strict", str(program))
        done("run", str(program), "--fill", "random:1", "-o", str(out), "--quiet", "--force")
        assert cycles(out) > 0
        return (out / "outputs" / "logits.npy").read_bytes()

    def compile(self, device: str, mapping: object, *more: str) -> tuple[Path, str]:
        """Return the program, and what was said; an empty text: it was compiled."""
        file, program = self.folder / "fixed.json", self.folder / "fixed.kpu"
        file.write_text(mapping if isinstance(mapping, str) else json.dumps(mapping))
        program.unlink(missing_ok=True)
        result = command(
            "compile", DIGITS, *INT8, "--platform", device, *more, "--mapping", str(file), "-o", str(program)
        )
        self.assertIn(result.returncode, (0, 1), result.stderr)
        self.assertEqual(program.exists(), result.returncode == 0)
        return program, result.stderr if result.returncode else ""

    def test_its_own_mapping_gives_the_same_program(self) -> None:
        """A mapping that --write-mapping writes is read by --mapping."""
        for device, chosen in self.chosen.items():
            program, said = self.compile(device, chosen)
            self.assertEqual(said, "")
            self.assertEqual(program.read_bytes(), (self.folder / f"{device}.kpu").read_bytes())

    def test_one_field_moves_one_operation(self) -> None:
        """Tiles, engines, places and fusion are those of the file, which also holds the others."""
        moved = {"tile": {"y": 1, "o": 16}, "in_flight": 2}
        program, said = self.compile("npm_lite", {**self.chosen["npm_lite"], "conv2": moved})
        self.assertEqual(said, "")
        self.assertEqual(self.run_program(program), self.outputs["npm_lite"])
        again = self.folder / "again.json"
        done("compile", DIGITS, *INT8, "--platform", "npm_lite", "--mapping", str(self.folder / "fixed.json"),
             "--write-mapping", str(again), "-o", str(program), "--force")  # fmt: skip
        now = json.loads(again.read_text())
        self.assertEqual((now["conv2"]["tile"]["y"], now["conv2"]["tile"]["o"]), (1, 16))
        self.assertEqual(now["conv2"]["in_flight"], 2)
        others = {name: fields for name, fields in now.items() if name != "conv2"}
        self.assertEqual(others, {n: f for n, f in self.chosen["npm_lite"].items() if n != "conv2"})

    def test_output_goes_where_it_is_wished(self) -> None:
        """To DDR and back: more bytes of DRAM, the same values."""
        before = rows(self.folder / "tile32")["pool1"]
        program, said = self.compile("tile32", {"conv1": {"output": "DDR"}})
        self.assertEqual(said, "")
        self.assertEqual(self.run_program(program), self.outputs["tile32"])
        self.assertGreater(int(rows(self.folder / "fixed")["pool1"]["bytes_dram"]), int(before["bytes_dram"]))

    def test_what_is_not_fused_is_an_operation(self) -> None:
        """Activations become operations of their own, with cycles; the values of int8 stay."""
        network = self.folder / "float"
        ops = []
        for extra in ([], ["--mapping", str(self.folder / "alone.json")]):
            (self.folder / "alone.json").write_text('{"*": {"fuse": false}}')
            done("run", DIGITS, "--platform", "tile32", "--precision", "f32", *extra, "--fill", "random:1",
                 "-o", str(network), "--quiet", "--force")  # fmt: skip
            ops.append({name for name, row in rows(network).items() if int(row["charged_cycles"]) > 0})
        self.assertLess(len(ops[0]), len(ops[1]))
        self.assertLess(ops[0], ops[1])

    def test_random_mappings(self) -> None:
        """Each gives the same bits, or is refused by name."""
        taken = 0
        for device, chosen in self.chosen.items():
            for number in range(RANDOM):
                generator = random.Random(f"{device} {number}")
                wish: Mapping = {}
                for op in generator.sample(sorted(chosen), 2):
                    sizes = chosen[op]["tile"]
                    axes = generator.sample(sorted(sizes), generator.randint(0, len(sizes)))
                    wish[op] = {"tile": {axis: generator.randint(1, sizes[axis]) for axis in axes}}
                    if generator.random() < 0.5:
                        wish[op]["in_flight"] = generator.randint(1, 6)
                    if generator.random() < 0.5:
                        wish[op]["output"] = generator.choice(["L2", "DDR"])
                    if generator.random() < 0.3:
                        wish[op]["engines"] = {generator.choice(sorted(sizes)): generator.randint(1, 3)}
                with self.subTest(device=device, wish=wish):
                    program, said = self.compile(device, wish)
                    if said:
                        self.assertRegex(said, r"\((Conv|MaxPool|Gemm)\): .*Fix: ")
                        continue
                    taken += 1
                    self.assertEqual(self.run_program(program), self.outputs[device])
        self.assertGreater(taken, RANDOM)

    def test_effort(self) -> None:
        """More of it is not slower, gives the same bits, and always the same program."""
        for device in self.chosen:
            counted = []
            for effort in ("2", "3", "3"):
                program = self.folder / f"effort{effort}.kpu"
                done("compile", DIGITS, *INT8, "--platform", device, "--effort", effort, "-o", str(program),
                     "--force")  # fmt: skip
                again = program.read_bytes()
                self.assertEqual(self.run_program(program), self.outputs[device])
                counted.append((cycles(program.with_suffix("")), again))
            self.assertLessEqual(counted[1][0], counted[0][0])
            self.assertEqual(counted[1], counted[2])
        wrong = command("check", DIGITS, *INT8, "--effort", "4")
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("Fix:", wrong.stderr)

    def test_refusals(self) -> None:
        """Illegal mappings say where and why; nothing is written."""
        for mapping, said in (
            ("{", "no JSON at byte"),
            ("[]", "it is not a JSON object"),
            ('{"conv1": 3}', "`conv1` has no {...}"),
            ('{"conv1": {"tiles": {}}}', "has a field `tiles`, which is unknown"),
            ('{"conv1": {"tile": {"y": 1.5}}}', "`y` in `tile` of `conv1` is not an integer"),
            ('{"conv1": {"tile": {"y": 18446744073709551615}}}', "is beyond 64 bits"),
            ('{"conv1": {"output": "L1"}}', '`output` of `conv1` is neither "L2" nor "DDR"'),
            ('{"conv1": {"fuse": 1}}', "is neither true nor false"),
            ('{"conv1": {"strips": 0}}', "`strips` of `conv1` is below 1. Fix: write 1 or more"),
            ('{"conv1": {"strips": 99}}', "it cannot be cut into 99 strips"),
            ('{"conv9": {}}', "the network has no operation `conv9`"),
            ('{"conv1": {"tile": {"q": 1}}}', "it has no axis `q`. Fix: its axes are n (16),"),
            ('{"conv1": {"tile": {"y": 0}}}', "a tile of 0 along `y`. Fix: give 1 to 8"),
            ('{"conv1": {"tile": {"y": 9}}}', "a tile of 9 along `y`"),
            ('{"conv1": {"in_flight": 0}}', "in_flight is 0. Fix: give 1 to 64"),
            ('{"conv1": {"engines": {"y": 99}}}', "99 engines along `y`. Fix: the device has"),
            (
                '{"conv1": {"tile": {"n": 16, "y": 8, "x": 8}, "in_flight": 2}}',
                "fewer tiles than engines or iterations",
            ),
        ):
            with self.subTest(mapping):
                self.assertIn(said, self.compile("tile32", mapping)[1])
        large = {"conv1": {"tile": {"n": 4, "y": 8, "x": 8, "o": 16}, "in_flight": 4}}
        said = self.compile("tile32", large, "--set", "engine.l1.size_bytes=16384")[1]
        self.assertRegex(
            said, r"SRAM memory exceeded: \d+ bytes required, 16384 bytes available for the tiles"
        )
        missing = command("check", DIGITS, *INT8, "--mapping", str(self.folder / "none.json"))
        self.assertEqual(missing.returncode, 1)
        self.assertEqual((missing.stdout + missing.stderr).count("none.json: error: cannot read"), 1)
        self.assertEqual((missing.stdout + missing.stderr).count("Fix: "), 1, missing.stdout)
        self.assertIn("none.json", missing.stdout + missing.stderr)

    def test_explained(self) -> None:
        """The mappings that lost stand beside the winner, the fastest first."""
        said = command("check", DIGITS, *INT8, "--platform", "tile32", "--explain-mapping", "conv2").stderr
        self.assertIn("mappings considered the fastest:", said)
        listed = [line.split() for line in said.split("fastest:")[1].splitlines()[2:]]
        times = [int(line[0]) for line in listed if line and line[0].isdigit()]
        self.assertGreater(len(times), 3)
        self.assertEqual(times, sorted(times))


class Strips(Folder):
    """A network whose tensors are too large for the L2 of the device."""

    def test_what_is_written_is_read(self) -> None:
        """The same operations are cut into as many strips, and values stay."""
        model = str(page.export("small_unet"))
        options = ["--platform", "npm_lite", "--precision", "int8", "--calibrate", "random:1"]
        written, mapping = [], self.folder / "given.json"
        outputs = []
        for more in ([], ["--mapping", str(mapping)]):
            name = f"unet{len(written)}"
            program, file = self.folder / f"{name}.kpu", self.folder / f"{name}.json"
            done("compile", model, *options, *more, "--write-mapping", str(file), "-o", str(program))
            done("run", str(program), "--fill", "random:1", "--mode", "functional", "--quiet",
                 "-o", str(self.folder / name))  # fmt: skip
            outputs.append([path.read_bytes() for path in (self.folder / name / "outputs").iterdir()])
            written.append(json.loads(file.read_text()))
            mapping.write_text(file.read_text())
        self.assertTrue(any("strips" in fixed for fixed in written[0].values()))
        self.assertEqual(written[0], written[1])
        self.assertEqual(outputs[0], outputs[1])


if __name__ == "__main__":
    if len(sys.argv) > 1 and not sys.argv[1].startswith("-"):
        test_networks.KPUSIM = sys.argv.pop(1)
    unittest.main()
