"""The page of a sweep, as headless Chromium renders it, against the table."""

from __future__ import annotations

import csv
import html
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import kpusim
import pytest
from conftest import GEMM
from kpusim.sweeps.report import write_report

CHROMIUM = os.environ.get("CHROMIUM", "")
#: Actions of a user: clicks a dot, sorts by time downwards, filters, brushes; what is shown is compared.
ACTIONS = """
<script>
const out = {};
const points = () => [...document.querySelectorAll("#table tbody tr")].map(row => +row.dataset.point);
const heading = name => [...document.querySelectorAll("#table th")].find(th => th.dataset.name === name);
function run() {
  out.rows = data.columns[0].values.length;
  out.traces = at("scatter").data.map(trace => trace.x.length);
  at("scatter").emit("plotly_click", { points: [{ customdata: 5 }] });
  out.detail = at("detail").innerText;
  out.picked = [...document.querySelectorAll("tr.picked")].map(r => +r.dataset.point);
  heading("time.total_us").click(); heading("time.total_us").click();
  out.sorted = points();
  const input = heading("engine.array.rows").querySelector("input");
  input.value = ">=32"; input.dispatchEvent(new Event("input"));
  out.filtered = points(); out.count = at("count").textContent;
  at("clear").click();
  out.cleared = points().length;
  const dimension = at("lines").data[0].dimensions.findIndex(d => d.label === "ddr.channels");
  Plotly.restyle("lines", { [`dimensions[${dimension}].constraintrange`]: [[[-0.1, 0.1]]] }).then(() => {
    out.brushed = points();
    const node = element("pre", JSON.stringify(out), document.body);
    node.id = "result";
  });
}
const wait = setInterval(() => { if (document.body.dataset.ready) { clearInterval(wait); run(); } }, 20);
</script>
"""


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> kpusim.SweepResults:
    """A sweep with a failed point."""
    return kpusim.sweep(
        folder=tmp_path_factory.mktemp("sweep"), programs=[GEMM], platforms=["npm_lite"],
        axes={"engine.array.rows": [16, 32, 64], "l2.size_bytes": ["64KiB", "1MiB", "2MiB"],
              "ddr.channels": [1, 2]},
        constraints=["power.average_w < 20"],
    )  # fmt: skip


def rendered(page: Path) -> str:
    """Return what the browser makes of a page."""
    words = [
        CHROMIUM,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=20000",
        "--dump-dom",
    ]
    result = subprocess.run([*words, page.as_uri()], capture_output=True, text=True, timeout=120, check=True)
    return result.stdout


@pytest.mark.skipif(not CHROMIUM, reason="no browser")
def test_a_user_clicks(results: kpusim.SweepResults, tmp_path: Path) -> None:
    """Click, sort, filter, brush: the rows are those of the table on disk."""
    page = tmp_path / "page.html"
    write_report(results, page)
    page.write_text(page.read_text().replace("</body>", ACTIONS + "</body>"))
    found = re.search(r'<pre id="result">(.*?)</pre>', rendered(page), re.S)
    assert found, "the page did not get ready"
    out: dict[str, Any] = json.loads(html.unescape(found[1]))
    with (results.folder / "table.csv").open(newline="") as file:
        table = list(csv.DictReader(file))
    good = [row for row in table if not row["error"]]
    assert out["rows"] == len(table) == 18 and sum(out["traces"]) == len(good) < 18
    assert out["picked"] == [5] and table[5]["cycles.total"] in out["detail"].replace(",", "")
    # empty cells last
    expected = sorted(good, key=lambda row: (-float(row["time.total_us"]), int(row["point"])))
    assert out["sorted"][: len(good)] == [int(row["point"]) for row in expected]
    wide = [int(row["point"]) for row in table if int(row["engine.array.rows"]) >= 32]
    assert sorted(out["filtered"]) == wide and out["count"].startswith(f"{len(wide)} of 18")
    assert out["cleared"] == 18
    one = [int(row["point"]) for row in good if row["ddr.channels"] == "1"]
    assert sorted(out["brushed"]) == one


def test_page_is_offline_and_safe(tmp_path: Path) -> None:
    """No address of the network is loaded, and names cannot become parts of the page."""
    name = "</script><img src=x onerror=alert(1)>\u00e9"
    results = kpusim.sweep(
        folder=tmp_path / "out", programs=[{"file": GEMM, "name": name}], platforms=["npm_lite"],
        axes={"ddr.channels": [1, 2]},
    )  # fmt: skip
    page = tmp_path / "page.html"
    write_report(results, page)
    text = page.read_text()
    assert not re.search(r"<(?:script|link|img)[^>]*(?:src|href)=", text)
    assert "<img src=x" not in text and text.count("</script>") == 3
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.S)[1])  # type: ignore[index]
    assert data["columns"][2]["values"] == [name, name]
    assert data["best"][0]["command"].startswith("kpusim run ") and "critical path" in data["best"][0]["text"]
    with pytest.raises(kpusim.UserError, match="exists"):
        write_report(results, page)


def test_moved_programs(tmp_path: Path) -> None:
    """A page is made without the programs, too, and says that nothing was run again."""
    kpusim.sweep(
        folder=tmp_path / "out", programs=[kpusim.Program.load(GEMM)], platforms=["npm_lite"],
        axes={"ddr.channels": [1, 2]},
    )  # fmt: skip
    (tmp_path / "out/programs/gemm_relu.kpu").unlink()
    page = tmp_path / "page.html"
    write_report(kpusim.SweepResults(tmp_path / "out"), page)
    assert "not run again" in page.read_text()
