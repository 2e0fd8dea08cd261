"""The comparison with recorded runs can fail, and says where."""

from __future__ import annotations

import json
import unittest

from check_golden import differences, text_of

RECORDED = {"cycles": {"total": 100}, "outputs": {"Y.npy": "aa"}, "units.l2.busy": {"useful": 7}}


class Differences(unittest.TestCase):
    """Reports of differences()."""

    def test_an_equal_run_has_none(self) -> None:
        """A record that was written and read again equals the run that it came from."""
        self.assertEqual(differences(json.loads(text_of(RECORDED)), RECORDED), [])

    def test_a_float_keeps_every_bit(self) -> None:
        """A difference in the last place survives writing and reading."""
        value = 0.1 + 0.2
        read = json.loads(text_of({"energy": {"total_uj": value}}))
        self.assertEqual(len(differences(read, {"energy": {"total_uj": 0.3}})), 1)

    def test_names_come_before_values(self) -> None:
        """Structure first: a lost and a new statistic are named before any value."""
        run = {"cycles": {"total": 103}, "outputs": {"Y.npy": "ab"}, "units.l2.idle": {"no_work": 1}}
        self.assertEqual(
            differences(RECORDED, run),
            [
                "units.l2.busy.useful: is recorded, but the run does not have it",
                "units.l2.idle.no_work: the run has it, but it is not recorded",
                "cycles.total: recorded 100, the run has 103 (+3)",
                "outputs.Y.npy: recorded aa, the run has ab",
            ],
        )


if __name__ == "__main__":
    unittest.main()
