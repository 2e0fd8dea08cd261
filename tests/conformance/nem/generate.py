"""Makes the execution cases: a folder with program, device, inputs and outputs per opcode and variant.

usage: generate.py FOLDER                  writes them into FOLDER
       generate.py --check FOLDER [KPUSIM] compares FOLDER with execute.sha256, which names every case; with
                                           the command: every variant that it lists has a case
       generate.py --renew                 writes execute.sha256, after a change on purpose

The expected values come from arithmetic.py, which knows nothing of the simulator. Folder names say opcode,
types and what is special. Generating again gives the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path

import arithmetic as ar
import block_cases
import cases
import network_cases
import numpy as np
from arithmetic import Tensor
from cases import Case

DIGESTS = Path(__file__).parent / "execute.sha256"
MUST = (
    "gemm.float<f16>.no_bias gemm.float<f16>.with_bias gemm.int8<i8>.no_bias gemm.int8<i8>.with_bias "
    "conv2d.float<f16>.no_bias conv2d.float<f16>.with_bias conv2d.int8<i8>.no_bias conv2d.int8<i8>.with_bias "
    "eltwise<i8>.default eltwise<f16>.default view<i8>.default view<f16>.default norm<f16>.default "
    "softmax<f16>.default cast.default quantize<f16,i8>.default dequantize<i8,f16>.default"
).split()

DEVICE = """# What this case needs beside the baseline.
include "npm_baseline_1_0.nem"
include "kpusim_ext.nem"

device case_device extends npm_baseline_1_0 {{
    topology {{
        num_engines = 1
        l2_size_bytes = 65536
        device_units {{ sDMA = 1 }}
        per_engine {{ NMU = 1  CSTL = 1  DMA = 1  VPU = 1  SEQ = 1  l1_size_bytes = 65536 }}
    }}
    unit_characteristics {{
        NMU {{ int8_macs = 64  int4_macs = 128  fp16_macs = 32  bf16_macs = 32  fp32_macs = 16{macs} }}
        SEQ {{ max_active_tokens = 16 }}
    }}
    opcode.extended {{ {variant} }}
}}
"""


def all_cases() -> list[Case]:
    """Return the cases of the language, of block formats, and of the opcodes that networks need."""
    return cases.all_cases() + block_cases.block_cases() + network_cases.all_cases()


def literal(value: object) -> str:
    """Return an attribute value as NEM writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return "[" + ", ".join(str(v) for v in value) + "]"
    return str(value)


def byte_size(tensor: Tensor) -> int:
    """Packed."""
    return (tensor.data.size * ar.BITS[tensor.elem] + 7) // 8


def program(case: Case) -> str:
    """DDR -> L1, the task, L1 -> DDR."""
    lines = ['device "device.nem"', f"program {case.name}:", ""]
    operands = [(f"in{i}", t) for i, t in enumerate(case.inputs)]
    results = [(f"out{i}", t) for i, t in enumerate(case.outputs)]
    for name, tensor in operands + results:
        size = byte_size(tensor)
        lines.append(f"buffer {name} : DDR (size = {size}, align = 64)")
        lines.append(f"buffer {name}_l1 : L1[0] (size = {size}, align = 64)")
    lines.append("")
    for name, tensor in operands + results:
        size, shape = byte_size(tensor), ", ".join(str(s) for s in tensor.shape)
        quant = f",\n    quant={tensor.quant.text()}" if tensor.quant else ""
        typed = f"elem={tensor.elem}, shape=[{shape}], layout=C"
        lines.append(f"let {name}_far = region({name}, 0, {size}) {typed}")
        lines.append(f"let {name}_near = region({name}_l1, 0, {size}) {typed}{quant}")
    lines.append("")
    for name, _ in operands:
        lines.append(f"load_{name} = transfer.async(dst={name}_near, src={name}_far)")
    attrs = "".join(f" {k}={literal(v)}" for k, v in case.attrs.items())
    inputs = ", ".join(f"{name}_near" for name, _ in operands)
    outputs = ", ".join(f"{name}_near" for name, _ in results)
    deps = ", ".join(f"load_{name}" for name, _ in operands)
    lines.append(f"work = {case.opcode}.async in {inputs} out {outputs}\n   {attrs} deps=[{deps}]")
    for name, _ in results:
        lines.append(f"save_{name} = transfer.async(dst={name}_far, src={name}_near, deps=[work])")
    return "\n".join(lines) + "\n"


def npy(array: np.ndarray) -> bytes:
    """Return a .npy file."""
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def files(case: Case) -> dict[str, bytes]:
    """Everything in the case's folder."""
    variant = "" if case.variant in MUST else case.variant
    macs = "  posit8_macs = 64  posit16_macs = 32" if "<posit" in variant else ""
    macs += "  fp8_e4m3_macs = 64  fp8_e5m2_macs = 64" if "<f8" in variant else ""
    if variant.startswith("gemm.mx."):
        macs += "  fp6_e2m3_macs = 64  fp6_e3m2_macs = 64  fp4_macs = 128  fp8_fp4_macs = 64"
        macs += "" if "fp8_e4m3" in macs else "  fp8_e4m3_macs = 64"
    device = DEVICE.format(variant=variant, macs=macs)
    result = {"program.nem": program(case).encode(), "device.nem": device.encode()}
    for i, tensor in enumerate(case.inputs):
        result[f"inputs/in{i}.npy"] = npy(tensor.data)
    for i, tensor in enumerate(case.outputs):
        result[f"expected/out{i}.npy"] = npy(tensor.data.ravel())
    return result


def uncovered(kpusim: str) -> list[str]:
    """Opcodes with a variant of the type families that no case has."""
    listed = subprocess.run([kpusim, "list", "opcodes", "--json"], check=True, capture_output=True)
    have = {(case.opcode, case.variant) for case in all_cases()}
    missing = []
    for row in json.loads(listed.stdout):
        if row["status"] in ("movement", "refused"):
            continue
        variants = {variant.rstrip("!") for variant in row["variants"]}
        if row["opcode"] == "matmul":  # shares the families of gemm, but takes no bias
            variants = {variant for variant in variants if not variant.endswith(".with_bias")}
        missing += [f"{row['opcode']} {v}" for v in sorted(variants) if (row["opcode"], v) not in have]
    return missing


def digest(content: dict[str, bytes]) -> str:
    """SHA-256 of a case's files: each one's path, a line end, its own SHA-256, a line end."""
    lines = [f"{path}\n{hashlib.sha256(data).hexdigest()}\n" for path, data in sorted(content.items())]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def write(folder: Path) -> None:
    """Every case as files."""
    for case in all_cases():
        for name, data in files(case).items():
            path = folder / case.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)


def check(folder: Path) -> str:
    """Say what of the folder differs from the digests; empty when nothing does."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            case, _, name = path.relative_to(folder).as_posix().partition("/")
            found.setdefault(case, {})[name] = path.read_bytes()
    present = {(digest(content), case) for case, content in found.items()}
    listed = {tuple(line.split()) for line in DIGESTS.read_text().splitlines()}
    differing = sorted({case for _, case in present ^ listed})
    if not differing:
        print(f"{len(found)} cases, {sum(map(len, found.values()))} files")
        return ""
    return (
        f"{len(differing)} execution cases differ from {DIGESTS.name}: {', '.join(differing[:5])}"
        f"{', ...' if len(differing) > 5 else ''}. Fix: if generate.py, cases.py or arithmetic.py changed on "
        f"purpose, run `python3 {Path(__file__)} --renew` and commit {DIGESTS.name}; if none did, NumPy "
        f"{np.__version__} computes other bits than the digests were made with"
    )


def main() -> None:
    """Writes, checks or renews, as the arguments say."""
    match sys.argv[1:]:
        case ["--renew"]:
            lines = [f"{digest(files(case))}  {case.name}\n" for case in all_cases()]
            DIGESTS.write_text("".join(lines))
        case ["--check", folder, *commands] if len(commands) <= 1:
            if commands and (missing := uncovered(commands[0])):
                sys.exit(f"no execution case for {', '.join(missing)}. Fix: add them to generate.py.")
            if not Path(folder).is_dir():
                sys.exit(
                    f"{folder}: no such folder. Fix: build the target conformance_cases, which makes it."
                )
            if wrong := check(Path(folder)):
                sys.exit(wrong)
        case [folder] if not folder.startswith("-"):
            write(Path(folder))
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
