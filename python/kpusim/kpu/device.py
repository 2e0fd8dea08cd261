"""Configurations of the client as platforms of the simulator, and back."""

from __future__ import annotations

import json
import math
import re
import warnings
from functools import cache
from typing import cast

from kpusim.errors import UserError
from kpusim.errors.compiling import CompilationError
from kpusim.kpu.shipped import BASE, ELEMENTS, SRAM_PORTS, loaded, read, shipped
from kpusim.kpu.spec import (
    ComputeConfig,
    KPUConfig,
    KPUConfigWarning,
    KPUPrecision,
    MemoryConfig,
)
from kpusim.platform import OverrideValue, Platform

WIDE_BASE = "swkpu-v2"  #: the same with all precisions
#: Precisions, and the names that the compiler has for them.
COMPILED = {KPUPrecision(word): word for word in ELEMENTS}
#: Precisions whose rates follow from ``tops_fp16``, and from ``tops_posit8``.
RATES = {"f16": "tops_fp16", "bf16": "tops_fp16", "posit16": "tops_fp16", "posit8": "tops_posit8"}


def platform_of(config: KPUConfig) -> Platform:
    """Return the platform that a configuration describes.

    Parameters
    ----------
    config : KPUConfig
        Its name is that of a shipped platform, or the device is like ``swkpu-v1``. Of that device, array,
        lanes, clock, sizes and bandwidths are changed to those of the configuration; the ratio of
        ``tops_fp16`` (and ``tops_posit8``) and ``tops_int8`` is the rate of these products.

    Raises
    ------
    CompilationError
        For a configuration that is no device, or asks for precisions that its device lacks.

    Warns
    -----
    KPUConfigWarning
        For TOPS that array and clock do not give, and for fields without effect.
    """
    if issues := issues_of(config):
        raise CompilationError(f"Invalid configuration: {'; '.join(issues)}")
    base = base_of(config)
    for text in [*contradictions(config, base), *ignored_fields(config)]:
        warnings.warn(text, KPUConfigWarning, stacklevel=3)
    usual = described(base)
    there, here = _key(usual, base), _key(config, base)
    changes = {name: value for name, value in here.items() if value != there.get(name)}
    if config.name != base:
        changes["name"], changes["version"] = config.name, config.version
    return _platform(base, json.dumps(changes)) if changes else loaded(base)


@cache
def described(name: str) -> KPUConfig:
    """Return a shipped platform as a configuration; not to be changed."""
    return config_of(loaded(name))


def base_of(config: KPUConfig) -> str:
    """Return the shipped platform that a configuration changes."""
    if config.name in shipped() and config.name != BASE:
        return config.name
    own = described(BASE).supported_precisions
    return BASE if all(kind in own for kind in config.supported_precisions) else WIDE_BASE


def issues_of(config: KPUConfig) -> list[str]:
    """List what is wrong with a configuration, so that it is no device; empty when nothing is."""
    try:
        issues = list(config.validate())
    except (TypeError, AttributeError) as error:
        return [f"it is not a KPUConfig ({error}). Fix: give a kpusim.kpu.KPUConfig."]
    if not isinstance(config.name, str) or not isinstance(config.version, str):
        return [*issues, "name and version are not text"]
    rows: list[tuple[object, str, bool, float]] = [  # names, whether whole, the least
        (config.memory, WHOLE_MEMORY, True, 1),
        (config.memory, "dram_bandwidth_gbps sram_bandwidth_gbps", False, 0.001),
        (config.compute, "systolic_rows systolic_cols vector_lanes", True, 1),
        (config.compute, "clock_mhz tdp_watts", False, 0.001),
        (config.compute, "tops_int8 tops_fp16 tops_posit8 idle_watts", False, 0),
        (config, "max_tensor_dims max_batch_size", True, 0),
    ]
    for part, fields, is_whole, least in rows:
        for field in fields.split():
            value = getattr(part, field, None)
            is_number = isinstance(value, int if is_whole else int | float) and not isinstance(value, bool)
            if not is_number or not least <= cast(float, value) < math.inf:
                what = "a whole number" if is_whole else "a number"
                issues.append(f"{field} is {value!r}. Fix: give {what}, {least} or more")
    if issues:
        return issues
    known = {kind.value for kind in KPUPrecision}
    given = [getattr(kind, "value", kind) for kind in config.supported_precisions]
    if unknown := [repr(kind) for kind in given if kind not in known]:
        return [f"there is no precision {', '.join(unknown)}. Fix: one of {', '.join(sorted(known))}"]
    own = described(base_of(config)).supported_precisions
    if lacking := [kind for kind in given if kind not in own]:
        names = ", ".join(kind.value for kind in own)
        issues.append(
            f"{config.name} has no products of {', '.join(lacking)}, but of {names}. "
            f"Fix: leave them out of supported_precisions, or take another name, such as {WIDE_BASE}"
        )
    return issues


WHOLE_MEMORY = "sram_l1_bytes sram_l2_bytes dram_bytes cache_line_bytes l1_associativity l2_associativity"


def _key(config: KPUConfig, base: str) -> dict[str, OverrideValue]:
    """Return what of a configuration the platform depends on; DRAM in channels like those of the base."""
    memory, compute = config.memory, config.compute
    usual, (ports, old_channels, old_rate) = described(base).memory, _counts(base)
    channels = max(
        math.ceil(memory.dram_bandwidth_gbps / usual.dram_bandwidth_gbps * old_channels),
        math.ceil(memory.dram_bytes / usual.dram_bytes * old_channels),
        1,
    )
    each = memory.dram_bandwidth_gbps / usual.dram_bandwidth_gbps * old_channels / channels
    sram = memory.sram_bandwidth_gbps * 1000 / compute.clock_mhz / ports
    key: dict[str, OverrideValue] = {
        "clock.core_mhz": compute.clock_mhz,
        "engine.array.rows": compute.systolic_rows,
        "engine.array.cols": compute.systolic_cols,
        "engine.vector.lanes": compute.vector_lanes,
        "engine.l1.size_bytes": memory.sram_l1_bytes,
        "engine.l1.bytes_per_cycle": max(1, round(sram)),
        "l2.size_bytes": memory.sram_l2_bytes,
        "l2.bytes_per_cycle": max(1, round(sram)),
        "l2.access_width_bytes": memory.cache_line_bytes,
        "ddr.channels": channels,
        "ddr.data_rate_mtps": max(1, round(old_rate * each)),
        "ddr.size_bytes": memory.dram_bytes,
        "energy.tdp_w": compute.tdp_watts,
    }
    for kind, field in RATES.items():
        known = KPUPrecision("fp16" if kind == "f16" else kind) in described(base).supported_precisions
        if known and compute.tops_int8 > 0 and getattr(compute, field) > 0:
            key[f"rate {kind}"] = f"{getattr(compute, field) / compute.tops_int8:g}"
    return key


@cache
def _counts(name: str) -> tuple[int, int, int]:
    """Return the counts of a shipped platform: ports of L2, channels of DRAM, data rate."""
    text = loaded(name).text()

    def number(pattern: str, default: int) -> int:
        found = re.search(pattern, text, re.DOTALL)
        return default if found is None else int(found.group(1))

    return (
        number(r"\nl2 \{.*?\n *ports: (\d+)", SRAM_PORTS),
        number(r"\nddr \{.*?channels: (\d+)", 1),
        number(r"\nddr \{.*?data_rate_mtps: (\d+)", 3200),
    )


@cache
def _platform(base: str, changes: str) -> Platform:
    """Return a shipped platform with changes; the same object for the same ones."""
    fields: dict[str, OverrideValue] = json.loads(changes)
    rates = {name.split()[1]: str(fields.pop(name)) for name in list(fields) if name.startswith("rate ")}
    titles = {name: str(fields.pop(name)) for name in ("name", "version") if name in fields}
    try:
        text = loaded(base).with_(**fields).text()
        for kind, rate in rates.items():
            if rate:
                text = re.sub(rf'(type: "{kind}"\s+relative: )\S+', rf"\g<1>{rate}", text)
        for name, value in titles.items():
            line = f"{name}: {json.dumps(value)}".replace("\\", r"\\")
            text = re.sub(rf'(?m)^{name}: ".*"$', line, text, count=1)
        text = re.sub(r'(?m)^description: ".*"\n', "", text, count=1)
        if rates or any(name.startswith("engine.array") for name in fields):
            text = re.sub(
                r"(?m)^ *(operand|result)_bytes_per_cycle: .*\n", "", text
            )  # follow from rows and rates
        return Platform.parse(text)
    except UserError as error:
        raise CompilationError(f"Invalid configuration: {error}") from error


def contradictions(config: KPUConfig, base: str) -> list[str]:
    """TOPS that array and clock do not give."""
    compute, usual = config.compute, described(base).compute
    size = usual.systolic_rows * usual.systolic_cols * usual.clock_mhz
    arrays = usual.tops_int8 / (2 * size * 1e-6)  # all of its engines' arrays, at their rate
    real = 2 * arrays * compute.systolic_rows * compute.systolic_cols * compute.clock_mhz * 1e-6
    if abs(real - compute.tops_int8) <= 0.05 * real:
        return []
    return [
        f"tops_int8 is {compute.tops_int8:g}, but {compute.systolic_rows}x{compute.systolic_cols} at "
        f"{compute.clock_mhz:g} MHz are {real:g} TOPS. Fix: the array and the clock rule; change one of them."
    ]


def ignored_fields(config: KPUConfig) -> list[str]:
    """Fields without effect that were changed, and why they have none."""
    memory, compute, usual = config.memory, config.compute, KPUConfig(config.name)
    reasons = {
        "l1_associativity": (memory, usual.memory, "a scratchpad has no ways"),
        "l2_associativity": (memory, usual.memory, "a scratchpad has no ways"),
        "idle_watts": (compute, usual.compute, "the power of idle units follows from the energy table"),
    }
    if KPUPrecision.POSIT8 not in config.supported_precisions:
        reasons["tops_posit8"] = (compute, usual.compute, "the arrays have no products of posit8")
    return [
        f"{name} is ignored: {why}. Fix: leave it at its default."
        for name, (given, default, why) in reasons.items()
        if getattr(given, name) != getattr(default, name)
    ]


def config_of(platform: Platform) -> KPUConfig:
    """Return the configuration that describes a platform of one kind of engine.

    Parameters
    ----------
    platform : Platform
        Its first engine counts.

    Returns
    -------
    KPUConfig
        ``tops_*`` follow from array, clock and rates.
    """
    found, version = read(platform), re.search(r'(?m)^version: "(.*)"', platform.text())
    return KPUConfig(
        name=platform.name,
        version="1.0.0" if version is None else version[1],
        memory=MemoryConfig(**found.memory),  # type: ignore[arg-type]  # names and numbers of fields
        compute=ComputeConfig(**found.compute),  # type: ignore[arg-type]
        supported_precisions=[KPUPrecision(word) for word in found.precisions],
    )
