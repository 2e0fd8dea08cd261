"""The table of SRAM macros, made with CACTI 7: area_sram.csv beside this script.

    python3 platforms/area_sram.py --cacti zigzag [--check ROWS]

``zigzag`` is the folder of an unpacked wheel (``pip download --no-deps zigzag-dse==3.9.1``, then unzip).
Without --check the whole table is made anew, in half a minute; with it, so many rows spread over the table
are computed again and compared.

A macro is one bank: one port for reads and writes, a word as wide as the bank, no ECC, CACTI's 22 nm, whose
cell has 0.0707 um2, organised for the least energy x delay^2. CACTI searches few organisations, so its areas
are no smooth function of the size. The column ``mm2`` is what it says, ``used_mm2`` the least table above it
in which a larger or wider macro is never smaller and a byte of a larger one never dearer. area_sram.cpp
interpolates the latter.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

TABLE = Path(__file__).with_name("area_sram.csv")
SIZES = [1 << bits for bits in range(10, 25)]  #: bytes
#: Bytes. Memory compilers end there or before it; wider banks are several macros side by side.
WIDTHS = [4, 8, 16, 32]
RELATIVE_TOLERANCE = 1e-4

CONFIG = """\
-size (bytes) {size}
-Array Power Gating - "false"
-WL Power Gating - "false"
-CL Power Gating - "false"
-Bitline floating - "false"
-Interconnect Power Gating - "false"
-Power Gating Performance Loss 0.01
-block size (bytes) {width}
-output/input bus width {bits}
-associativity 1
-read-write port 1
-exclusive read port 0
-exclusive write port 0
-single ended read ports 0
-UCA bank count 1
-technology (u) 0.022
-page size (bits) 8192
-burst length 8
-internal prefetch width 8
-Data array cell type - "itrs-hp"
-Data array peripheral type - "itrs-hp"
-Tag array cell type - "itrs-hp"
-Tag array peripheral type - "itrs-hp"
-operating temperature (K) 360
-cache type "ram"
-tag size (b) "default"
-access mode (normal, sequential, fast) - "normal"
-design objective (weight delay, dynamic power, leakage power, cycle time, area) 0:0:0:100:0
-deviate (delay, dynamic power, leakage power, cycle time, area) 20:100000:100000:100000:100000
-NUCAdesign objective (weight delay, dynamic power, leakage power, cycle time, area) 100:100:0:0:100
-NUCAdeviate (delay, dynamic power, leakage power, cycle time, area) 10:10000:10000:10000:10000
-Optimize ED or ED^2 (ED, ED^2, NONE): "ED^2"
-Cache model (NUCA, UCA)  - "UCA"
-NUCA bank count 0
-Wire signaling (fullswing, lowswing, default) - "Global_30"
-Wire inside mat - "semi-global"
-Wire outside mat - "semi-global"
-Interconnect projection - "conservative"
-Core count 8
-Cache level (L2/L3) - "L3"
-Add ECC - "false"
-Print level (DETAILED, CONCISE) - "CONCISE"
-Print input parameters - "true"
-Force cache config - "false"
-Ndwl 1
-Ndbl 1
-Nspd 0
-Ndcm 1
-Ndsam1 0
-Ndsam2 0
-dram_type "DDR3"
-io state "WRITE"
-addr_timing 1.0
-mem_density 4 Gb
-bus_freq 800 MHz
-duty_cycle 1.0
-activity_dq 1.0
-activity_ca 0.5
-num_dq 72
-num_dqs 18
-num_ca 25
-num_clk  2
-num_mem_dq 2
-mem_data_width 8
-rtt_value 10000
-ron_value 34
-tflight_value
-num_bobs 1
-capacity 80
-num_channels_per_bob 1
-first metric "Cost"
-second metric "Bandwidth"
-third metric "Energy"
-DIMM model "ALL"
-mirror_in_bob "F"
"""

Macro = tuple[int, int]  #: bytes of the macro, bytes of its word


def grid() -> list[Macro]:
    """Return the macros of the table, by width, then size."""
    return [(size, width) for width in WIDTHS for size in SIZES]


def run_cacti(folder: Path, size: int, width: int) -> float | None:
    """Area of one macro.

    Parameters
    ----------
    folder
        holds the binary and its ``tech_params``
    size, width
        bytes of the macro and of its word

    Returns
    -------
    float | None
        mm2 at CACTI's 22 nm; none where it finds no organisation
    """
    with tempfile.TemporaryDirectory() as temporary:
        config = Path(temporary) / "macro.cfg"
        config.write_text(CONFIG.format(size=size, width=width, bits=8 * width), encoding="utf-8")
        subprocess.run(
            [str(folder / "cacti"), "-infile", str(config)], cwd=folder, capture_output=True, check=False
        )
        result = Path(f"{config}.out")
        if not result.exists():
            return None
        names, values = (
            [cell.strip() for cell in line.split(",")] for line in result.read_text().splitlines()[:2]
        )
        return float(values[names.index("Area (mm2)")])


def envelope(raw: dict[Macro, float | None]) -> dict[Macro, float]:
    """Return the least table above ``raw`` that grows as area must.

    A larger or wider macro is never smaller, and a byte of a larger one never dearer: then neither a larger
    capacity nor more or wider banks make a memory smaller. A macro without an area gets that of the smallest
    larger one of its width.
    """
    used: dict[Macro, float] = {}
    for width in WIDTHS:
        largest = 0.0
        for size in SIZES:
            largest = max(largest, raw[size, width] or 0)
            used[size, width] = largest
        dearest = 0.0
        for size in reversed(SIZES):
            dearest = max(dearest, used[size, width] / size)
            used[size, width] = dearest * size
    for narrow, wide in pairwise(WIDTHS):
        for size in SIZES:
            used[size, wide] = max(used[size, wide], used[size, narrow])
    return used


def write_table(raw: dict[Macro, float | None]) -> None:
    """Write area_sram.csv, with where it is from."""
    used = envelope(raw)
    factors = [used[macro] / area for macro, area in raw.items() if area]
    with TABLE.open("w", encoding="utf-8", newline="\n") as file:
        file.write(
            "# Areas of single-ported SRAM macros without ECC: CACTI 7.0.3DD (HP Labs, BSD) at 22 nm, cell\n"
            "# 0.0707 um2: the binary of zigzag-dse 3.9.1 with the configuration of area_sram.py, which\n"
            "# says what used_mm2 is;"
            f" made {datetime.date.today().isoformat()} by: python3 platforms/area_sram.py --cacti zigzag\n"
            f"# used_mm2 is at most {max(factors) - 1:.0%} above mm2; `-`: CACTI finds no organisation\n"
        )
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["size_bytes", "width_bytes", "mm2", "used_mm2"])
        for macro in grid():
            area = raw[macro]
            rows.writerow([*macro, "-" if area is None else f"{area:.6g}", f"{used[macro]:.12g}"])


def read_table() -> dict[Macro, float | None]:
    """Return the column mm2."""
    with TABLE.open(encoding="utf-8") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (int(row["size_bytes"]), int(row["width_bytes"])): None
            if row["mm2"] == "-"
            else float(row["mm2"])
            for row in rows
        }


def cacti_folder(given: Path) -> Path:
    """Find where the binary is, in an unpacked wheel or in the folder itself."""
    for folder in (given, given / "zigzag" / "cacti" / "cacti_master"):
        if (folder / "cacti").is_file():
            (folder / "cacti").chmod(0o755)  # which unzip may forget
            return folder.resolve()
    raise SystemExit(f"error: no cacti in {given}. Fix: give the folder of an unpacked zigzag-dse wheel.")


def differences(folder: Path, macros: Iterable[Macro]) -> list[str]:
    """Return the rows that CACTI gives otherwise than the table, one line each."""
    table = read_table()
    wrong = []
    for size, width in macros:
        got, had = run_cacti(folder, size, width), table[size, width]
        same = got == had if got is None or had is None else abs(got - had) <= RELATIVE_TOLERANCE * had
        if not same:
            wrong.append(f"{size} bytes, {width} wide: the table has {had}, CACTI gives {got}")
    return wrong


def main() -> int:
    """Make the table, or check rows of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cacti", type=Path, required=True, help="folder of an unpacked zigzag-dse wheel")
    parser.add_argument("--check", type=int, metavar="ROWS", help="compute so many rows again, and compare")
    arguments = parser.parse_args()
    folder = cacti_folder(arguments.cacti)
    if arguments.check is None:
        write_table({macro: run_cacti(folder, *macro) for macro in grid()})
        return 0
    macros = grid()
    wrong = differences(folder, macros[:: max(1, len(macros) // arguments.check)])
    print("\n".join(wrong) or "the rows are those of the table")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
