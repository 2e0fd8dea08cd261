"""Area in the statistics and the report: of every unit, of the components, of all; what is not modelled.

usage: KPUSIM=path/to/kpusim python3 -m unittest test_area
"""

from __future__ import annotations

import json
import unittest

from command import GEMM, FolderTest, kpusim

Stats = dict[str, dict[str, object]]


class AreaTest(FolderTest):
    """Runs of one program on several devices."""

    def run_on(self, platform: str, *options: str) -> tuple[Stats, str]:
        """Statistics and report."""
        out = self.work / "out"
        done = kpusim(
            "run",
            GEMM,
            "--platform",
            platform,
            "--retarget",
            "--mode",
            "timing",
            "-o",
            out,
            "--force",
            *options,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads((out / "stats.json").read_text())["stats"], done.stdout

    def value(self, stats: Stats, key: str) -> float:
        """Return a number of the statistics, in mm2."""
        self.assertEqual(stats[key]["unit"], "mm2")
        value = stats[key]["value"]
        assert isinstance(value, float)
        return value

    def units(self, platform: str, *options: str) -> list[str]:
        """Return the names of the device's units, but for the device as a whole."""
        listed = kpusim("list", "units", "--platform", platform, "--json", *options)
        return [row["unit"] for row in json.loads(listed.stdout) if row["unit"] != "device"]

    def test_units_and_components_sum_to_the_total(self) -> None:
        """On devices of every shape, with bands in order, in the report too."""
        for platform, options in (
            ("npm_pro", ()),
            ("edge16", ()),
            ("npm_mid", ("--set", "interconnect.topology=ring")),
            ("npm_pro", ("--set", "interconnect.topology=mesh", "--set", "energy.node_nm=7")),
        ):
            with self.subTest(platform=platform, options=options):
                stats, report = self.run_on(platform, *options)
                total, low, high = (
                    self.value(stats, f"area.{name}_mm2") for name in ("total", "low", "high")
                )
                units = [self.value(stats, f"area.{unit}_mm2") for unit in self.units(platform, *options)]
                self.assertAlmostEqual(sum(units), total, places=9)
                self.assertLess(0, min(units))
                names = [key.split(".")[2] for key in stats if key.startswith("area.by_component.")]
                for group, sum_of_all in (("by_component", total), ("low", low), ("high", high)):
                    parts = [self.value(stats, f"area.{group}.{name}") for name in names]
                    self.assertAlmostEqual(sum(parts), sum_of_all, places=9)
                for name in names:
                    self.assertLess(
                        self.value(stats, f"area.low.{name}"), self.value(stats, f"area.by_component.{name}")
                    )
                    self.assertGreater(
                        self.value(stats, f"area.high.{name}"), self.value(stats, f"area.by_component.{name}")
                    )
                self.assertNotIn("area.not_modelled", stats)
                self.assertIn(f"\narea         {total:.3g} mm2, {low:.3g} to {high:.3g}\n", report)
                self.assertIn("without host interface, pads", report)

    def test_sources_are_named(self) -> None:
        """A component's meaning has its source, a memory's what it consists of and what is doubtful."""
        stats, _ = self.run_on("gemmini16", "--set", "engine.array.rate[f16]=0.5")

        def meaning(key: str) -> str:
            return str(stats[f"area.{key}_mm2"]["meaning"])

        self.assertIn("CACTI 7", meaning("by_component.l1"))
        self.assertIn("TPU v4i", meaning("by_component.array"))
        self.assertRegex(
            meaning("l2"), r"^area of the unit, [\d.]+ to [\d.]+: 8 banks of one port .* crossbar$"
        )
        self.assertIn("not reliable for banks of 3072 bytes", meaning("e0_l1"))
        self.assertRegex(meaning("e0_seq"), r"^area of the unit, 0.03 to 0.3$")

    def test_not_modelled(self) -> None:
        """HBM's interface has no figure: no key, no part of a sum, and a reason; at 90 nm nothing has one."""
        stats, report = self.run_on("core128-hbm2")
        self.assertEqual(stats["area.not_modelled"]["value"], 8)
        self.assertNotIn("area.ddr0_mm2", stats)
        self.assertNotIn("area.by_component.phy_mm2", stats)
        self.assertIn(
            "\n  not modelled: no area is known of ddr0 and 7 more: no published area of an HBM", report
        )
        stats, report = self.run_on("edge16", "--set", "energy.node_nm=90")
        self.assertEqual([key for key in stats if key.startswith("area.")], ["area.not_modelled"])
        self.assertEqual(stats["area.not_modelled"]["value"], len(self.units("edge16")))
        self.assertIn("\narea         not modelled: no area is known of e0_nmu0 and", report)
        self.assertIn("from 5 to 65 nm", report)

    def test_listed(self) -> None:
        """`list stats` knows the keys."""
        rows = json.loads(kpusim("list", "stats", "--platform", "npm_lite", "--json").stdout)
        keys = {row["key"] for row in rows if row["unit"] == "mm2"}
        self.assertLessEqual({"area.total_mm2", "area.e0_l1_mm2", "area.high.array_mm2"}, keys)


if __name__ == "__main__":
    unittest.main()
