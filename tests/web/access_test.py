# SPDX-License-Identifier: Apache-2.0
"""access_test.py - axe-core finds no serious problem in the views of the chat page, light, dark and on a phone."""
import gzip
import json
import pathlib
import sys

from page_rig import Browser, Server, ask, case, equal, main, open_page, skip_without_browser
from rig import FACT, WEATHER, WEATHER_TOOL

AXE = pathlib.Path(__file__).resolve().parents[2] / "third_party/axe-core/axe.min.js.gz"
VIEWS = {"light": {}, "dark": {"dark": True}, "phone": {"width": 360, "height": 640, "mobile": True}}


def problems(page):
    """Serious and critical ones: rule and elements."""
    page.js(gzip.decompress(AXE.read_bytes()).decode() + "; 1")
    found = page.js("axe.run().then((r) => r.violations.map((v) => [v.impact, v.id, v.nodes.map((n) => n.html.slice(0, 120))]))")
    return [v for v in found if v[0] in ("serious", "critical")]


@case
def no_serious_problems(browser, server):
    for name, view in VIEWS.items():
        def check(what):
            equal((name, what, problems(page)), (name, what, []))

        with open_page(browser, server, {"tools": json.dumps([WEATHER_TOOL])}, **view) as page:
            ask(page, FACT)
            ask(page, WEATHER)
            page.js("document.querySelectorAll('.stats').forEach((d) => d.open = true)")
            check("chat")
            if name == "light":
                page.click("#open-settings")
                check("settings")
                page.click("#settings button", "Cancel")
            if name == "phone":
                page.click("#menu")
                check("menu")
                page.click("#menu")
            page.click("#tab-dashboard")
            page.wait("document.querySelectorAll('.chart polyline').length > 0")
            check("dashboard")


if __name__ == "__main__":
    skip_without_browser()
    with Server() as one, Browser() as chromium:
        code = main(chromium, one)
    sys.exit(code)
