"""Configurations of the client as platforms of the simulator, and back."""

from __future__ import annotations

import json
import math
import re
import warnings
from functools import cache

from kpusim.errors import UserError
from kpusim.kpu.spec import (
    CompilationError,
    ComputeConfig,
    KPUConfig,
    KPUConfigWarning,
    KPUPrecision,
    MemoryConfig,
)
from kpusim.platform import OverrideValue, Platform

BASE = "swkpu-v1"  #: the device whose other parameters are taken
CHANNEL_GBPS = 12.8  #: of a channel of its DRAM at full rate, 4 bytes wide
CHANNEL_BYTES = 2**31  #: that a channel of its DRAM holds
SRAM_PORTS = 4  #: of L1 and L2
ELEMENTS = {KPUPrecision.INT8: "i8", KPUPrecision.FP16: "f16", KPUPrecision.BF16: "bf16"}
#: Precisions by the name that the compiler has for them.
COMPILED = {KPUPrecision.INT8: "int8", KPUPrecision.FP16: "fp16", KPUPrecision.BF16: "bf16"}


def platform_of(config: KPUConfig) -> Platform:
    """The platform that a configuration describes.

    Parameters
    ----------
    config : KPUConfig
        Array, lanes, clock, sizes and bandwidths count; the ratio of ``tops_fp16`` and ``tops_int8`` is the
        rate of 16-bit products.

    Raises
    ------
    CompilationError
        For a configuration that is no device.

    Warns
    -----
    KPUConfigWarning
        For TOPS that array and clock do not give, and for fields without effect.
    """
    if issues := config.validate():
        raise CompilationError(f"Invalid configuration: {'; '.join(issues)}")
    for text in [*contradictions(config), *ignored_fields(config)]:
        warnings.warn(text, KPUConfigWarning, stacklevel=3)
    return _platform(json.dumps(_key(config)))


def _key(config: KPUConfig) -> dict[str, OverrideValue]:
    """What of a configuration the platform depends on."""
    memory, compute = config.memory, config.compute
    channels = max(
        math.ceil(memory.dram_bandwidth_gbps / CHANNEL_GBPS), math.ceil(memory.dram_bytes / CHANNEL_BYTES), 1
    )
    sram = memory.sram_bandwidth_gbps * 1000 / compute.clock_mhz / SRAM_PORTS
    ratio = compute.tops_fp16 / compute.tops_int8 if compute.tops_int8 > 0 and compute.tops_fp16 > 0 else 0.5
    return {
        "name": config.name,
        "version": config.version,
        "wide_rate": ratio,
        "bf16": KPUPrecision.BF16 in config.supported_precisions,
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
        "ddr.data_rate_mtps": round(memory.dram_bandwidth_gbps / channels / 4 * 1000),
        "ddr.size_bytes": memory.dram_bytes,
        "energy.tdp_w": compute.tdp_watts,
    }


@cache
def _platform(key: str) -> Platform:
    """The platform of a key; the same object for the same key, so that programs are not made anew."""
    fields: dict[str, OverrideValue] = json.loads(key)
    rate = fields.pop("wide_rate")
    name, version, bf16 = str(fields.pop("name")), str(fields.pop("version")), fields.pop("bf16")
    try:
        text = Platform.load(BASE).with_(**fields).text()
        text = re.sub(r'(type: "f16"\s+relative: )\S+', rf"\g<1>{rate:g}", text)
        if bf16:
            text = re.sub(
                r'(\n *rate \{\s*type: )"f16"(\s*relative: )\S+(\s*\})',
                rf'\g<0>\1"bf16"\g<2>{rate:g}\3',
                text,
            )
            wide = re.findall(r'variant: "[^"]*bf16[^"]*"', Platform.load("tile32").text())
            text += "\n".join(wide) + "\n"
        text = re.sub(r'(?m)^name: ".*"$', lambda _: f"name: {json.dumps(name)}", text, count=1)
        text = re.sub(r'(?m)^version: ".*"$', lambda _: f"version: {json.dumps(version)}", text, count=1)
        text = re.sub(r'(?m)^description: ".*"\n', "", text, count=1)
        text = re.sub(
            r"(?m)^ *(operand|result)_bytes_per_cycle: .*\n", "", text
        )  # follow from rows and rates
        return Platform.parse(text)
    except UserError as error:
        raise CompilationError(f"Invalid configuration: {error}") from error


def contradictions(config: KPUConfig) -> list[str]:
    """TOPS that array and clock do not give."""
    compute = config.compute
    real = 2 * compute.systolic_rows * compute.systolic_cols * compute.clock_mhz * 1e-6
    if abs(real - compute.tops_int8) <= 0.05 * real:
        return []
    return [
        f"tops_int8 is {compute.tops_int8:g}, but {compute.systolic_rows}x{compute.systolic_cols} at "
        f"{compute.clock_mhz:g} MHz are {real:g} TOPS. Fix: the array and the clock rule; change one of them."
    ]


def ignored_fields(config: KPUConfig) -> list[str]:
    """Fields without effect that were changed, and why they have none."""
    memory, compute, usual = config.memory, config.compute, KPUConfig()
    reasons = {
        "l1_associativity": (memory, usual.memory, "a scratchpad has no ways"),
        "l2_associativity": (memory, usual.memory, "a scratchpad has no ways"),
        "idle_watts": (compute, usual.compute, "the power of idle units follows from the energy table"),
        "tops_posit8": (compute, usual.compute, "the arrays have no posit products"),
    }
    return [
        f"{name} is ignored: {why}. Fix: leave it at its default."
        for name, (given, default, why) in reasons.items()
        if getattr(given, name) != getattr(default, name)
    ]


def config_of(platform: Platform) -> KPUConfig:
    """The configuration that describes a platform of one kind of engine.

    Parameters
    ----------
    platform : Platform
        Its first engine counts.

    Returns
    -------
    KPUConfig
        ``tops_*`` follow from array, clock and rates.
    """
    text = platform.text()

    def number(pattern: str, default: float = 0) -> float:
        found = re.search(pattern, text, re.DOTALL)
        return default if found is None else float(found.group(1))

    rates = {kind: float(rate) for kind, rate in re.findall(r'type: "(\w+)"\s+relative: (\S+)', text)}
    rows, cols = int(number(r"\n *rows: (\d+)")), int(number(r"\n *cols: (\d+)"))
    arrays = number(r"engine \{\s*count: (\d+)", 1) * number(r"array \{\s*count: (\d+)", 1)
    peak = 2 * rows * cols * arrays * platform.core_mhz * 1e-6
    ports = number(r"\nl2 \{.*?\n *ports: (\d+)", SRAM_PORTS)
    usual = KPUConfig()
    return KPUConfig(
        name=platform.name,
        version=(re.search(r'(?m)^version: "(.*)"', text) or ["", usual.version])[1],
        memory=MemoryConfig(
            sram_l1_bytes=int(number(r"l1 \{.*?size_bytes: (\d+)")),
            sram_l2_bytes=int(number(r"\nl2 \{.*?size_bytes: (\d+)")),
            dram_bytes=int(number(r"\nddr \{.*?size_bytes: (\d+)")),
            dram_bandwidth_gbps=platform.dram_gbps,
            sram_bandwidth_gbps=number(r"\nl2 \{.*?bytes_per_cycle: (\d+)")
            * ports
            * platform.core_mhz
            * 1e-3,
            cache_line_bytes=int(number(r"\nl2 \{.*?access_width_bytes: (\d+)", 64)),
        ),
        compute=ComputeConfig(
            systolic_rows=rows,
            systolic_cols=cols,
            vector_lanes=int(number(r"lanes: (\d+)")),
            clock_mhz=platform.core_mhz,
            tops_int8=peak * rates.get("i8", 0),
            tops_fp16=peak * rates.get("f16", 0),
            tops_posit8=usual.compute.tops_posit8,
            tdp_watts=number(r"tdp_w: (\S+)", usual.compute.tdp_watts),
        ),
        supported_precisions=[precision for precision, kind in ELEMENTS.items() if kind in rates],
    )
