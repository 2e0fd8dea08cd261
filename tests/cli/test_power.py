"""Power over time: by component, engine, unit and operation, in bins of any width; budgets of its peak.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_power
"""

from __future__ import annotations

import csv
import json
import re
import unittest
from decimal import Decimal
from pathlib import Path

from command import GEMM, ROOT, FolderTest, kpusim

EXAMPLES = {
    "gemm_relu": ("npm_lite", "npm_pro", "swkpu-v1"),
    "conv_pool": ("npm_mid",),
    "gemm_rmsnorm": ("npm_pro",),
}
BY = ("component", "engine", "unit", "op")
Rows = list[dict[str, str]]


def parts(row: dict[str, str]) -> dict[str, Decimal]:
    """Return the energies of a row, pJ, without its total."""
    return {
        name: Decimal(value) for name, value in row.items() if name.endswith("_pj") and name != "total_pj"
    }


class PowerTest(FolderTest):
    """Recorded runs, each made once."""

    def record(self, name: str, platform: str, *options: object) -> tuple[Path, dict[str, float]]:
        """Return its events and statistics."""
        events = self.work / f"{name}_{platform}.kpuev"
        program = ROOT / "examples" / name / f"{name}.nem"
        done = kpusim("run", program, "--platform", platform, "--retarget", "--mode", "timing", "--quiet",
                      "--json", "--events", events, *options)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        stats = json.loads(done.stdout)["stats"]
        return events, {key: row["value"] for key, row in stats.items()}

    def power(self, events: Path, *options: object) -> Rows:
        """Return the rows of its power trace."""
        path = self.work / "power.csv"
        done = kpusim("export", events, "--power", path, *options)
        self.assertEqual(done.returncode, 0, done.stderr)
        with path.open(newline="") as file:
            return list(csv.DictReader(file))


class Sums(PowerTest):
    """Sums are equal to the last digit."""

    def check_bins(self, by: dict[str, Rows]) -> None:
        """Every level has the same energy in every bin."""
        totals = [Decimal(row["total_pj"]) for row in by["component"]]
        for level in ("component", "engine", "unit"):
            self.assertEqual([sum(parts(row).values()) for row in by[level]], totals, level)
            self.assertEqual([Decimal(row["total_pj"]) for row in by[level]], totals, level)
        in_bin: dict[str, Decimal] = {}
        for row in by["op"]:
            in_bin[row["time_ns"]] = in_bin.get(row["time_ns"], Decimal(0)) + Decimal(row["energy_pj"])
        self.assertEqual(list(in_bin.values()), totals)

    def test_every_level_sums_to_the_statistics(self) -> None:
        """Components, engines, units, operations; dynamic and static apart; also bin by bin."""
        for name, platforms in EXAMPLES.items():
            for platform in platforms:
                with self.subTest(f"{name} on {platform}"):
                    events, stats = self.record(name, platform)
                    by = {
                        level: self.power(events, "--power-by", level, "--power-in", "pJ", "--bin-ns", 700)
                        for level in BY
                    }
                    self.check_bins(by)
                    total = sum(Decimal(row["total_pj"]) for row in by["unit"])
                    self.assertEqual(float(total / 10**6), stats["energy.total_uj"])
                    for kind in ("dynamic", "static"):
                        of_kind = sum(
                            value
                            for row in by["unit"]
                            for column, value in parts(row).items()
                            if column.endswith(f"_{kind}_pj")
                        )
                        self.assertEqual(float(of_kind / 10**6), stats[f"energy.{kind}_uj"])

    def test_networks(self) -> None:
        """The same of a compiled network and of a topology."""
        for source in ("networks/digits_cnn.onnx", "resnet18/resnet18.csv"):
            with self.subTest(source):
                events = self.work / "network.kpuev"
                done = kpusim("run", ROOT / "examples" / source, "--platform", "swkpu-v1", "--mode", "timing",
                              "--quiet", "--json", "--events", events)  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stderr)
                stats = json.loads(done.stdout)["stats"]
                by = {
                    level: self.power(events, "--power-by", level, "--power-in", "pJ", "--bin-ns", 100_000)
                    for level in BY
                }
                self.check_bins(by)
                total = sum(Decimal(row["total_pj"]) for row in by["unit"])
                self.assertEqual(float(total / 10**6), stats["energy.total_uj"]["value"])

    def test_two_halves_are_the_whole(self) -> None:
        """Bins of half the width, of every column."""
        events, _ = self.record("gemm_relu", "npm_lite")
        for level in BY[:3]:
            whole, half = (
                self.power(events, "--power-by", level, "--power-in", "pJ", "--bin-ns", width)
                for width in (2000, 1000)
            )
            for i, row in enumerate(whole):
                for column, value in parts(row).items():
                    halves = sum(Decimal(r[column]) for r in half[2 * i : 2 * i + 2])
                    self.assertEqual(halves, value, f"{column} of bin {i}")

    def test_operations(self) -> None:
        """Energies of operations are those of ops.csv; what is of none is __background."""
        events, _ = self.record("gemm_relu", "npm_lite", "-o", self.work / "run")
        sums: dict[str, Decimal] = {}
        for row in self.power(events, "--power-by", "op", "--power-in", "pJ"):
            sums[row["op"]] = sums.get(row["op"], Decimal(0)) + Decimal(row["energy_pj"])
        with (self.work / "run" / "ops.csv").open(newline="") as file:
            known = {row["op"]: float(row["energy_pj"]) for row in csv.DictReader(file)}
        self.assertEqual({op: float(energy) for op, energy in sums.items()}, known)

    def test_watts_are_energy_over_time(self) -> None:
        """The two forms of a trace agree; the highest bin is the statistics' peak."""
        events, stats = self.record("gemm_relu", "npm_lite", "--bin-ns", 250)
        watts, energies = (
            self.power(events, "--power-by", "unit", "--power-in", unit) for unit in ("W", "pJ")
        )
        for w, e in zip(watts, energies, strict=True):
            for column, value in parts(e).items():
                mean = float(w[column.replace("_pj", "_w")])
                self.assertAlmostEqual(mean, float(value) / float(e["dt_ns"]) / 1000, places=12)
        self.assertEqual(stats["power.bin_us"], 0.25)
        self.assertAlmostEqual(max(float(row["total_w"]) for row in watts), stats["power.peak_w"], places=9)

    def test_channels_and_engines_get_their_own(self) -> None:
        """A program of one engine leaves the others their static power; channels share as they serve."""
        events, stats = self.record("gemm_relu", "npm_pro")
        rows = self.power(events, "--power-by", "unit", "--power-in", "pJ")
        sums = {column: sum(parts(row)[column] for row in rows) for column in parts(rows[0])}
        self.assertGreater(sums["e0_nmu0_dynamic_pj"], 0)
        self.assertEqual(sums["e3_nmu1_dynamic_pj"], 0)
        self.assertGreater(sums["e3_nmu1_static_pj"], 0)
        # the arrays' dynamic energy is that of array 0 of engine 0, which does it all
        arrays = sum(value for name, value in sums.items() if re.match(r"e\d_nmu\d_dynamic", name))
        component = stats["energy.by_component.array_uj"] - stats["energy.static.array_uj"]
        self.assertAlmostEqual(float(arrays) / 1e6 / component, 1, places=12)
        channels = [value for name, value in sums.items() if re.fullmatch(r"ddr\d_dynamic_pj", name)]
        self.assertGreater(min(channels), 0)

    def test_waveform_has_the_same(self) -> None:
        """power_dynamic_w and power_static_w of each unit in the VCD are the CSV's."""
        events, _ = self.record("gemm_relu", "npm_lite")
        vcd = self.work / "power.vcd"
        self.assertEqual(kpusim("export", events, "--vcd", vcd).returncode, 0)
        scope, codes = [], {}
        values: dict[str, dict[int, str]] = {}
        time = 0
        for line in vcd.read_text().splitlines():
            words = line.split()
            if line.startswith("$scope"):
                scope.append(words[2])
            elif line.startswith("$upscope"):
                scope.pop()
            elif line.startswith("$var") and words[4].startswith("power_"):
                codes[words[3]] = f"{scope[-1]}_{words[4].removeprefix('power_')}"
            elif line.startswith("#"):
                time = int(line[1:])
            elif line.startswith("r") and words[1] in codes:
                values.setdefault(codes[words[1]], {})[time] = words[0][1:]
        rows = self.power(events, "--power-by", "unit")
        names = [name for name in rows[0] if name.endswith("_w") and name != "total_w"]
        self.assertEqual(set(values), set(names))
        for name in names:
            now = ""
            for row in rows:
                now = values[name].get(int(float(row["time_ns"]) * 1000), now)
                self.assertEqual(float(now), float(row[name]), f"{name} at {row['time_ns']}")


class Corners(PowerTest):
    """The band of the energy table."""

    def test_band_is_what_the_corners_give(self) -> None:
        """The columns have the energy of runs at those corners; the report and budgets have their figures."""
        events, _ = self.record("gemm_relu", "npm_lite")
        rows = self.power(events, "--power-by", "corner", "--power-in", "pJ")
        watts = {}
        for corner in ("low", "high"):
            _, stats = self.record("gemm_relu", "npm_lite", "--set", f"energy.corner={corner}")
            total = sum(Decimal(row[f"{corner}_pj"]) for row in rows)
            self.assertEqual(float(total / 10**6), stats["energy.total_uj"])
            watts[corner] = stats["power.average_w"]
        low, high = watts["low"], watts["high"]
        report = kpusim("run", GEMM, "--mode", "timing").stdout
        self.assertIn(f"{low:.3g} W to {high:.3g} W average", report)
        for budget, near in (
            (low * 0.99, False),
            (low * 1.01, True),
            (high * 0.99, True),
            (high * 1.01, False),
        ):
            done = kpusim("run", GEMM, "--mode", "timing", "--quiet", "--power-budget", budget)
            figures = f"near: the energy table's low to high corner is {low:.4g} W to {high:.4g} W"
            self.assertEqual(figures in done.stderr, near, done.stderr)


class Options(PowerTest):
    """Widths and views."""

    def test_run_equals_export(self) -> None:
        """The same bytes, at a width of one's own."""
        events, _ = self.record("gemm_relu", "npm_lite")
        for level in BY:
            first, second = self.work / "first.csv", self.work / "second.csv"
            options = ("--power-by", level, "--bin-ns", 333)
            done = kpusim("run", GEMM, "--mode", "timing", "--quiet", "--power", first, *options)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(kpusim("export", events, "--power", second, *options).returncode, 0)
            self.assertEqual(first.read_bytes(), second.read_bytes(), level)

    def test_filter_and_window(self) -> None:
        """Columns of the units that match, rows of the bins that the window touches; the total is of all."""
        events, _ = self.record("gemm_relu", "npm_lite")
        rows = self.power(
            events, "--power-by", "unit", "--trace-filter", "ddr*", "--trace-window", "2500:4000"
        )
        self.assertEqual(
            list(rows[0]),
            ["time_ns", "dt_ns", "ddr0_dynamic_w", "ddr0_static_w", "ddr1_dynamic_w", "ddr1_static_w",
             "total_w", "op"],
        )  # fmt: skip
        self.assertEqual([row["time_ns"] for row in rows], ["2000", "3000"])
        self.assertGreater(float(rows[0]["total_w"]), float(rows[0]["ddr0_dynamic_w"]))

    def test_bad_bins(self) -> None:
        """One error each, which says what would do."""
        events, _ = self.record("gemm_relu", "npm_lite")
        path = self.work / "none.csv"
        for command in (["export", events], ["run", GEMM, "--mode", "timing", "--quiet"]):
            for width, why in (
                ("0", "--bin-ns"),
                ("-5", "--bin-ns"),
                ("nan", "--bin-ns"),
                ("0.5", "a core cycle takes 1 ns"),
            ):
                done = kpusim(*command, "--power", path, "--bin-ns", width)
                self.assertEqual(done.returncode, 1, (command, width))
                self.assertIn(why, done.stderr)
                self.assertFalse(path.exists())
            done = kpusim(*command, "--power", path, "--power-by", "layer")
            self.assertEqual(done.returncode, 1)
            self.assertIn("--power-by does not take `layer`", done.stderr)


class Peak(PowerTest):
    """--peak-power-budget."""

    RUN = ("run", GEMM, "--mode", "timing", "--quiet")

    def test_kept_and_exceeded(self) -> None:
        """The peak of the statistics is the limit: a little less is exceeded and named."""
        _, stats = self.record("gemm_relu", "npm_lite")
        peak = stats["power.peak_w"]
        done = kpusim(*self.RUN, "--peak-power-budget", f"{peak * 1.001}W@1us")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, r"^ok: peak power: [0-9.]+ W over 1 us at \d+ us, budget")
        done = kpusim(*self.RUN, "--peak-power-budget", f"{peak * 999}mW@1us")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("; 1 of 66 windows are above\n", done.stderr)
        self.assertRegex(
            done.stderr, r"\n  \d+ us to \d+ us, up to [0-9.]+ W: [a-z0-9_]+ [0-9.]+ W, .*; operations \w+ "
        )
        done = kpusim(*self.RUN, "--peak-power-budget", f"{peak * 0.9}W@1us", "--tolerance", "12%")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_windows_of_several_lengths(self) -> None:
        """Each is judged; one window of the whole run is its average."""
        _, stats = self.record("gemm_relu", "npm_lite")
        average, peak = stats["power.average_w"], stats["power.peak_w"]
        report = self.work / "report.xml"
        both = (
            "--peak-power-budget",
            f"{average * 1.0001}W@1ms",
            "--peak-power-budget",
            f"{peak * 0.99}W@1us",
        )
        done = kpusim(*self.RUN, *both, "--junit", report)
        self.assertEqual(done.returncode, 3)
        self.assertIn("ok: peak power:", done.stderr)
        self.assertIn("error: peak power:", done.stderr)
        self.assertEqual(report.read_text().count('name="peak power budget'), 2)

    def test_bad_budgets(self) -> None:
        """A budget without units, or of a run without time."""
        for text in ("2.5", "2.5W", "2.5@1us", "2.5W@1", "0W@1us", "xW@1us"):
            done = kpusim(*self.RUN, "--peak-power-budget", text)
            self.assertEqual((done.returncode, done.stdout), (1, ""), text)
            self.assertIn("like 2.5W@1us", done.stderr)
        done = kpusim(*self.RUN, "--peak-power-budget", "1W@0.5ns")
        self.assertEqual(done.returncode, 1)
        self.assertIn("a core cycle takes 1 ns", done.stderr)
        done = kpusim("run", GEMM, "--fill", "zeros", "--mode", "functional", "--peak-power-budget", "1W@1us")
        self.assertEqual(done.returncode, 1)
        self.assertIn("--peak-power-budget", done.stderr)


if __name__ == "__main__":
    unittest.main()
