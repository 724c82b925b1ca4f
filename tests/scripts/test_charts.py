#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The charts of docs/charts are drawn from bench/results and name what was measured.

A chart must not be edited by hand: this test draws all of them again and compares bytes. Then it
reads the texts of every chart: model, quantisation, CPU and date, and no label that lost a part.
"""
import filecmp
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def draw(out, results=None):
    command = [sys.executable, "-B", str(ROOT / "bench/charts"), str(out)]
    subprocess.run(command + (["--results", str(results)] if results else []), check=True)
    return sorted(Path(out).glob("*.svg"))


def texts(chart):
    return re.findall(r"<text[^>]*>([^<]*)</text>", chart.read_text())


def committed_charts_are_current(temporary):
    for chart in draw(temporary):
        kept = ROOT / "docs/charts" / chart.name
        assert kept.exists() and filecmp.cmp(chart, kept, shallow=False), \
            f"docs/charts/{chart.name} is not what bench/charts draws from bench/results"


def charts_name_what_was_measured(temporary):
    report = json.loads(next((ROOT / "bench/results").glob("mote-*.json")).read_text())
    report.update(model="qwen3.5-9.7b-random", quantization="Q5_K_S", cpu="A CPU", date="2031-02-03")
    compare = json.loads((ROOT / "bench/results/compare.json").read_text())
    compare.update({key: report[key] for key in ("model", "quantization", "cpu", "date")})
    results = Path(temporary) / "results"
    results.mkdir()
    (results / "mote.json").write_text(json.dumps(report))
    (results / "compare.json").write_text(json.dumps(compare))
    charts = draw(Path(temporary) / "out", results)
    assert len(charts) == 10, charts
    for chart in charts:
        title, note, *labels = texts(chart)
        assert "qwen3.5-9.7b Q5_K_S" in title, f"{chart.name}: {title}"
        for part in ("A CPU", "2031-02-03", "tokens per second"):
            assert part in note, f"{chart.name}: {note}"
        assert not [x for x in labels if re.match(r"\d+, ", x) or "prompt 512" in x], labels


def main():
    for test in (committed_charts_are_current, charts_name_what_was_measured):
        with tempfile.TemporaryDirectory() as temporary:
            test(temporary)
            print("ok", test.__name__)


if __name__ == "__main__":
    main()
