# SPDX-License-Identifier: Apache-2.0
"""site_test.py - the documentation site: builds without a warning, has no broken link, loads nothing from elsewhere.

The pages of the site are parsed again: every link and every file that HTML names must exist, with its anchor. Planted
faults (a link to a missing page, to a missing heading, a page outside of the navigation) must fail.
"""
import html.parser
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = re.compile(r"[a-z]+:|//")


def build(root):
    """(exit code, output) of scripts/docs_site."""
    done = subprocess.run([ROOT / "scripts/docs_site", root], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "MOTE_SDK_CACHE": os.environ.get("MOTE_SDK_CACHE") or os.environ["SDK_CACHE"]})
    return done.returncode, done.stdout


class Page(html.parser.HTMLParser):
    """Anchors, links and loaded files of a page."""

    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), set(), set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values.get("id"), values.get("name")}
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        elif tag != "a":
            self.loaded |= {values[key] for key in ("src", "srcset", "href") if values.get(key)}


def faults_of(site):
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        for target in page.loaded:
            if OUTSIDE.match(target) and not target.startswith("data:"):
                yield f"{name} loads {target}"
        for target in page.loaded | page.links:
            if OUTSIDE.match(target) or name.name == "404.html":
                continue
            file, _, anchor = target.partition("#")
            to = (path.parent / urllib.parse.unquote(file)).resolve() if file else path
            if not to.exists():
                yield f"{name}: {target} does not exist"
            elif to in pages and anchor and urllib.parse.unquote(anchor) not in pages[to].anchors:
                yield f"{name}: {target} has no such heading"


def check_whole():
    """The site of this tree, in a copy, so that two builds of the tree do not write the same files."""
    with tempfile.TemporaryDirectory(prefix="mote-site-") as work:
        names = subprocess.run([sys.executable, "-c", "import sys, tree, pathlib; "
                                "print('\\n'.join(tree.files(pathlib.Path(sys.argv[1]))))", ROOT],
                               cwd=ROOT / "scripts", capture_output=True, text=True, check=True).stdout.split("\n")
        for name in filter(None, names):
            if name == "mkdocs.yml" or not name.startswith(("tests/", "third_party/")):
                Path(work, name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, Path(work, name))
        began = time.monotonic()
        code, text = build(work)
        if code == 77:
            sys.exit(77)
        assert code == 0, text
        print(text, f"{time.monotonic() - began:.1f} s", sep="")
        site = Path(work, "build/site")
        faults = list(faults_of(site))
        assert not faults, "\n".join(faults)
        indexed = {entry["location"].split("#")[0] for entry in
                   json.loads((site / "search/search_index.json").read_text(encoding="utf-8"))["docs"]}
        for page in ("index.html", "docs/tutorial.html", "docs/api.html", "examples/rag/index.html"):
            assert page in indexed or (page == "index.html" and "" in indexed), f"the search does not know {page}"
        assert len(indexed) > 60, indexed


def check_planted():
    """A small site, right and with a fault each."""
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    settings = settings[:settings.index("nav:\n  -")] + "nav:\n  - README.md\n  - docs/a.md\n"
    right = {"README.md": "# R\n\n[a](docs/a.md)\n", "docs/a.md": "# A\n\n[r](../README.md), [r](../README.md#r)\n"}
    planted = [("", {}), ("missing.md", {"docs/a.md": right["docs/a.md"] + "[m](missing.md)\n"}),
               ("#none", {"docs/a.md": right["docs/a.md"] + "[m](../README.md#none)\n"}),
               ("b.md", {"docs/a.md": right["docs/a.md"] + "[b](b.md)\n", "docs/b.md": "# B\n"})]
    for named, changes in planted:
        with tempfile.TemporaryDirectory(prefix="mote-site-") as work:
            Path(work, "docs").mkdir()
            Path(work, "mkdocs.yml").write_text(settings, encoding="utf-8")
            for name, text in {**right, **changes}.items():
                Path(work, name).write_text(text, encoding="utf-8")
            code, text = build(work)
            assert (code == 0) == (not named) and named in text, (named, code, text)


if __name__ == "__main__":
    check_whole()
    check_planted()
