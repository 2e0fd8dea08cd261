"""An option of pytest, for conftest.py: a part of a test with many cases is an entry of ctest of its own."""

from __future__ import annotations

from collections import Counter

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """A part of a test with many cases."""
    parser.addoption("--part", default="1/1", help="2/3: the second, fifth, ... case of each test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    """Tests with the same cases have the same ones in a part."""
    part, parts = map(int, config.getoption("--part").split("/"))
    assert 1 <= part <= parts
    seen: Counter[str] = Counter()
    kept = []
    for item in items:
        if seen[item.originalname] % parts == part - 1:
            kept.append(item)
        seen[item.originalname] += 1
    items[:] = kept
