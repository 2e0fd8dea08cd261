"""Takes the picture of README.md of a report page, from one run.

usage: report.py KPUSIM [CHROMIUM]

Fonts are those of the machine, so no test compares its dots; the page itself is tested in tests/explain.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PICTURE = Path(__file__).with_name("report.png")
SIZE = "1200,1165"  #: down to the end of the panel of power


def main() -> None:
    """Runs, explains, looks."""
    kpusim = Path(sys.argv[1]).resolve()
    chromium = sys.argv[2] if len(sys.argv) > 2 else "chromium"
    with tempfile.TemporaryDirectory() as name:
        out, page = Path(name) / "out", Path(name) / "report.html"
        run = [kpusim, "run", "examples/gemm_relu/gemm_relu.nem", "--fill", "random:1", "--quiet"]
        subprocess.run([*run, "-o", out, "--events", out / "events.kpuev"], cwd=ROOT, check=True)
        subprocess.run([kpusim, "explain", out, "--html", page], check=True, capture_output=True)
        browser = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
        shot = [f"--window-size={SIZE}", f"--screenshot={PICTURE}", page.as_uri()]
        subprocess.run([*browser, *shot], check=True, capture_output=True)


if __name__ == "__main__":
    main()
