"""unittest.main with an option more: --part 2/3 runs the second, fifth, ... test of the module.

Parts are entries of ctest of their own, which run beside each other.
"""

from __future__ import annotations

import sys
import unittest
from collections.abc import Iterator


def tests_of(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """One by one."""
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def main() -> None:
    """Run the tests of the script."""
    part, parts = 1, 1
    if "--part" in sys.argv:
        at = sys.argv.index("--part")
        part, parts = map(int, sys.argv[at + 1].split("/"))
        del sys.argv[at : at + 2]
    assert 1 <= part <= parts

    class Program(unittest.TestProgram):
        def createTests(self, *arguments: object, **more: object) -> None:  # noqa: N802
            super().createTests(*arguments, **more)
            self.test = unittest.TestSuite(list(tests_of(self.test))[part - 1 :: parts])

    Program()
