# SPDX-License-Identifier: Apache-2.0
"""web_test.py - the files of the chat page as HTTP replies: types, compression, tags, headers, --no-web.

tests/web runs the page in a browser.
"""
import gzip
import pathlib
import re

from api_rig import Server, case, equal, request, run

ROOT = pathlib.Path(__file__).resolve().parents[2]
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
LARGEST_TOTAL = 400 * 1000


def files():
    """{name: path} of web/files.cmake."""
    text = (ROOT / "web/files.cmake").read_text(encoding="utf-8")
    return dict(re.findall(r"^    (\S+)=([^\s)]+)", text, re.MULTILINE))


def fetch(server, path, method="GET", **headers):
    """Without a key, as a browser."""
    return request(server, method, path, headers={"Authorization": "", "Accept-Encoding": "gzip, br", **headers})


@case
def every_file(server):
    total = 0
    for name, path in files().items():
        status, headers, data = fetch(server, f"/web/{name}")
        equal((status, headers["content-type"]), (200, TYPES[name.rsplit(".")[-1]] + "; charset=utf-8"))
        equal((headers["content-encoding"], headers["vary"]), ("gzip", "Accept-Encoding"))
        equal(gzip.decompress(data), (ROOT / path).read_bytes())
        equal(data[4:8], b"\0\0\0\0")  # no time: two builds are equal
        total += len(data)
    assert total <= LARGEST_TOTAL, total
    print(f"     {len(files())} files, {total} bytes compressed")


@case
def every_module_is_served(_):
    """A module that the page imports and no file of the list would fail in the browser only."""
    listed = files()
    equal(sorted(p for p in listed.values() if p.startswith("web/")),
          sorted(f"web/{p.name}" for p in (ROOT / "web").iterdir() if p.suffix in (".html", ".css", ".js", ".svg")))
    for name, path in listed.items():
        if path.startswith("web/") and name.endswith(".js"):
            for module in re.findall(r'from "\./([^"]+)"', (ROOT / path).read_text(encoding="utf-8")):
                assert module in listed, (name, module)


@case
def root_is_the_page(server):
    status, headers, data = fetch(server, "/", Accept=BROWSER)
    equal((status, headers["content-type"]), (200, "text/html; charset=utf-8"))
    equal(gzip.decompress(data), (ROOT / "web/index.html").read_bytes())
    equal(headers["vary"], "Accept, Accept-Encoding")
    head = fetch(server, "/", "HEAD", Accept=BROWSER)
    equal((head[2], int(head[1]["content-length"])), (b"", len(data)))
    # clients of Ollama keep their text
    equal(request(server, "GET", "/", headers={"Accept": "*/*"})[2], b"Ollama is running")


@case
def headers(server):
    for path in ("/", "/web/main.js", "/web/index.html"):
        got = fetch(server, path, Accept=BROWSER)[1]
        equal((got["x-content-type-options"], got["x-frame-options"], got["referrer-policy"]), ("nosniff", "DENY", "no-referrer"))
        equal((got["cross-origin-opener-policy"], got["cross-origin-resource-policy"]), ("same-origin", "same-origin"))
        policy = dict(part.strip().split(" ", 1) for part in got["content-security-policy"].split(";"))
        equal((policy["default-src"], policy["script-src"], policy["style-src"], policy["connect-src"]),
              ("'none'", "'self'", "'self'", "'self'"))
        equal((policy["frame-ancestors"], policy["base-uri"], policy["form-action"]), ("'none'", "'none'", "'none'"))
        equal((policy["require-trusted-types-for"], policy["trusted-types"]), ("'script'", "dompurify mote-worker"))
        assert "unsafe" not in got["content-security-policy"] and "http" not in got["content-security-policy"]
    # no markup that the policy would refuse
    page = (ROOT / "web/index.html").read_text(encoding="utf-8")
    assert not re.search(r"<style|\sstyle=|\son\w+=|javascript:|<script>|//", page), "inline script or style"


@case
def tags(server):
    _, got, data = fetch(server, "/web/main.js")
    tag = got["etag"]
    assert re.fullmatch('"[0-9a-f]{16}"', tag), tag
    for value in (tag, f'"x", {tag}', f"W/{tag}", "*"):
        status, again, body = fetch(server, "/web/main.js", **{"If-None-Match": value})
        equal((status, body, again["etag"]), (304, b"", tag))
        assert "content-length" not in again and "content-encoding" not in again
    for value in ('"x"', tag[:-1], ""):
        equal(fetch(server, "/web/main.js", **{"If-None-Match": value})[0::2], (200, data))
    assert len({fetch(server, f"/web/{name}")[1]["etag"] for name in files()}) == len(files())


@case
def encodings(server):
    for value in ("gzip", "br;q=1.0, gzip;q=0.5", "*", "GZIP"):
        equal(fetch(server, "/web/style.css", **{"Accept-Encoding": value})[0], 200)
    for value in ("identity", "br", "gzip;q=0", ""):
        status, _, data = fetch(server, "/web/style.css", **{"Accept-Encoding": value})
        equal(status, 406)
        assert b"gzip" in data


@case
def unknown_files(server):
    for path in ("/web/nothing.js", "/web/../health", "/web/vendor", "/web/vendor/", "/web/%2e%2e/health", "/web/MAIN.js"):
        equal(fetch(server, path)[0] in (401, 404), True)
    equal(fetch(server, "/web/", )[0] in (401, 404), True)
    equal(fetch(server, "/web/main.js", "POST")[0] in (401, 405), True)


@case
def no_web(_):
    with Server("--no-web") as server:
        equal(fetch(server, "/web/main.js")[0], 404)
        status, got, data = fetch(server, "/", Accept=BROWSER)
        equal((status, b"<script" in data), (200, False))
        assert "content-encoding" not in got


run()
