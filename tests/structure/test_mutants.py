"""Changes that mutants.py makes: code, no texts, one line at a time, the same ones for the same seed.

usage: test_mutants.py
"""

from __future__ import annotations

import itertools
import unittest

import mutants


class Mutants(unittest.TestCase):
    """The changes, without building any."""

    def test_changes(self) -> None:
        """Mutants of single lines."""
        for line, wanted in {
            "  if (a < b && !c) f();": [
                "  if (a <= b && !c) f();", "  if (a < b || !c) f();", "  if (a < b && c) f();",
            ],
            "  s += x[i + 1];": ["  s += x[i - 1];", "  s -= x[i + 1];", "  s += x[i + 2];", "  ;"],
            "    list.push_back(x);": ["    ;"],
            "    return std::min(a, 64);": ["    return std::max(a, 64);", "    return std::min(a, 65);"],
            '    say("a < b + 1");  // 3 < 4': [],
            "    std::vector<int64_t> pads(axes);": [],
            "    // a < b": [],
            "#include <algorithm>": [],
        }.items():  # fmt: skip
            found = list(mutants.changes(line))
            if line.startswith("    say"):
                found = [text for text in found if text != "    ;"]
            self.assertEqual(found, wanted)

    def test_drawn(self) -> None:
        """Mutants of a room: each changes one line of its file, and a seed draws the same ones again."""
        draws = [list(itertools.islice(mutants.drawn("platforms", "*.cpp", seed), 40)) for seed in (1, 1, 2)]
        self.assertEqual(draws[0], draws[1])
        self.assertNotEqual(draws[0], draws[2])
        self.assertGreater(len({mutant.path for mutant in draws[0]}), 10)
        for mutant in draws[0]:
            before = mutant.path.read_text(encoding="utf-8").splitlines()
            after = mutant.planted().splitlines()
            self.assertEqual([at for at, line in enumerate(before) if line != after[at]], [mutant.line])


if __name__ == "__main__":
    unittest.main()
