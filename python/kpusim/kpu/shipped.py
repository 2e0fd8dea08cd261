"""The shipped platforms, as the numbers that a configuration of the client has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache

from kpusim.platform import Platform

BASE = "swkpu-v1"  #: the device of configurations whose name is no shipped platform's
SRAM_PORTS = 4  #: of L2, where a platform does not say
#: Words of the client for precisions, and the rates of an array that they need.
ELEMENTS = {
    "int8": "i8",
    "int4": "i8xi4",
    "fp16": "f16",
    "bf16": "bf16",
    "posit8": "posit8",
    "posit16": "posit16",
}


@dataclass(frozen=True)
class Described:
    """Fields of a configuration by their names; those that are missing have the client's defaults."""

    memory: dict[str, int | float] = field(default_factory=dict)
    compute: dict[str, int | float] = field(default_factory=dict)
    precisions: tuple[str, ...] = ("int8", "fp16")


@cache
def shipped() -> tuple[str, ...]:
    """Names of the platforms that come with the package."""
    return tuple(Platform.names())


@cache
def loaded(name: str) -> Platform:
    """A shipped platform, the same object each time, so that programs are not made anew."""
    return Platform.load(name)


def usual(name: object) -> Described:
    """Return what a configuration of this name has if nothing is given."""
    if name == BASE or not isinstance(name, str) or name not in shipped():
        return Described()
    return _of_shipped(name)


@cache
def _of_shipped(name: str) -> Described:
    return read(loaded(name))


def read(platform: Platform) -> Described:
    """Fields of a platform; its first engine counts, ``tops_*`` follow from array, clock and rates."""
    text = platform.text()

    def number(pattern: str, default: float = 0) -> float:
        found = re.search(pattern, text, re.DOTALL)
        return default if found is None else float(found.group(1))

    rates = {kind: float(rate) for kind, rate in re.findall(r'type: "(\w+)"\s+relative: (\S+)', text)}
    rows, cols = int(number(r"\n *rows: (\d+)")), int(number(r"\n *cols: (\d+)"))
    arrays = number(r"engine \{\s*count: (\d+)", 1) * number(r"array \{\s*count: (\d+)", 1)
    peak = 2 * rows * cols * arrays * platform.core_mhz * 1e-6
    ports = number(r"\nl2 \{.*?\n *ports: (\d+)", SRAM_PORTS)
    memory: dict[str, int | float] = {
        "sram_l1_bytes": int(number(r"l1 \{.*?size_bytes: (\d+)")),
        "sram_l2_bytes": int(number(r"\nl2 \{.*?size_bytes: (\d+)")),
        "dram_bytes": int(number(r"\nddr \{.*?size_bytes: (\d+)")),
        "dram_bandwidth_gbps": platform.dram_gbps,
        "sram_bandwidth_gbps": number(r"\nl2 \{.*?bytes_per_cycle: (\d+)") * ports * platform.core_mhz * 1e-3,
        "cache_line_bytes": int(number(r"\nl2 \{.*?access_width_bytes: (\d+)", 64)),
    }
    compute: dict[str, int | float] = {
        "systolic_rows": rows,
        "systolic_cols": cols,
        "vector_lanes": int(number(r"lanes: (\d+)")),
        "clock_mhz": platform.core_mhz,
        "tops_int8": peak * rates.get("i8", 0),
        "tops_fp16": peak * rates.get("f16", 0),
    }
    if "posit8" in rates:
        compute["tops_posit8"] = peak * rates["posit8"]
    if tdp := number(r"tdp_w: (\S+)"):
        compute["tdp_watts"] = tdp
    return Described(memory, compute, tuple(word for word, kind in ELEMENTS.items() if kind in rates))
