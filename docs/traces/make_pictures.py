"""Makes the picture of docs/traces.md: a run as GTKWave opens it with what --viewer-files wrote.

usage: make_pictures.py KPUSIM [FOLDER]   (default: the folder of this script)
Needs gtkwave, xvfb, xdotool and imagemagick.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "examples" / "gemm_relu" / "gemm_relu.nem"
TOOLS = {"gtkwave": "gtkwave", "Xvfb": "xvfb", "xdotool": "xdotool", "import": "imagemagick"}
SCREEN = "1500x950x24"
LONGEST = 60.0  #: seconds until the window must be there and still


def check_tools() -> None:
    """Names the packages of Debian that are missing."""
    missing = [package for tool, package in TOOLS.items() if shutil.which(tool) is None]
    if missing:
        sys.exit(f"error: not installed: {', '.join(missing)}. Fix: apt-get install {' '.join(missing)}.")


@contextmanager
def display() -> Iterator[dict[str, str]]:
    """An X server without a screen; the environment of its programs."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", SCREEN, "-nolisten", "tcp"],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
    )
    os.close(writer)
    try:
        with os.fdopen(reader) as numbers:
            number = numbers.readline().strip()
        if not number:
            sys.exit("error: Xvfb did not start. Fix: run it by hand to see why.")
        yield {**os.environ, "DISPLAY": f":{number}", "GDK_BACKEND": "x11"}
    finally:
        server.terminate()
        server.wait()


def screenshot(waveform: Path, picture: Path) -> None:
    """Take a picture of what GTKWave shows of the waveform with its save file, once it no longer changes."""
    with display() as environment:
        command = ["gtkwave", "--rcvar", "splash_disable on", waveform, f"{waveform}.gtkw"]
        viewer = subprocess.Popen(
            command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            begin, before = time.monotonic(), b""
            while time.monotonic() - begin < LONGEST:
                time.sleep(1)
                window = subprocess.run(
                    ["xdotool", "search", "--onlyvisible", "--pid", str(viewer.pid)],
                    env=environment, capture_output=True, text=True, check=False)  # fmt: skip
                if not window.stdout.strip():
                    continue
                subprocess.run(
                    ["import", "-window", "root", "-depth", "8", "-colors", "128", "-strip", picture],
                    env=environment, check=True)  # fmt: skip
                now = picture.read_bytes()
                if now == before:
                    return
                before = now
            sys.exit(
                f"error: no still window of GTKWave within {LONGEST:g} s. Fix: run it by hand to see why."
            )
        finally:
            viewer.kill()
            viewer.wait()


def main() -> None:
    """The picture."""
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    check_tools()
    kpusim, folder = sys.argv[1], Path(sys.argv[2] if len(sys.argv) > 2 else HERE)
    with tempfile.TemporaryDirectory() as work:
        waveform = Path(work) / "gemm_relu.fst"
        options = [
            "--mode",
            "timing",
            "--quiet",
            "--trace-every",
            "250ns",
            "--viewer-files",
            "--fst",
            waveform,
        ]
        subprocess.run([kpusim, "run", EXAMPLE, *options], check=True)
        screenshot(waveform, folder / "gtkwave.png")


if __name__ == "__main__":
    main()
