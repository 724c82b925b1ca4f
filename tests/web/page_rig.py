# SPDX-License-Identifier: Apache-2.0
"""page_rig.py - shared by the tests of the chat page: a browser with the page of a real server."""
import json
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "sdk")]

if os.environ.get("MOTE_BROWSER") == "firefox":
    from firefox import Browser, program  # noqa: E402,F401
else:
    from browser import Browser, program  # noqa: E402,F401
from rig import KEY, Server, case, equal, main  # noqa: E402,F401
from vision_examples import MODEL as VISION_MODEL, examples  # noqa: E402,F401

SKIPPED = 77
ANSWERED = "document.querySelector('#stop').hidden && document.querySelector('.message.assistant:last-of-type footer .row')"


def open_page(browser, server, settings=None, **view):
    """The page with the key of the server, and greedy sampling."""
    page = browser.page(None, **view)
    chosen = json.dumps({"temperature": 0, **(settings or {})})
    page.preload(
        f"if (!sessionStorage.getItem('mote-key')) sessionStorage.setItem('mote-key', {json.dumps(server.key or '')});"
        f"if (!localStorage.getItem('mote-settings')) localStorage.setItem('mote-settings', {json.dumps(chosen)});")
    page.open(server.url + "/")
    return page


def last(selector):
    return f"[...document.querySelectorAll('{selector}')].pop()"


def wait_until_drawn(page):
    """Waits for the end of the answer without reading its text, which takes a long task of its own if it is large."""
    page.wait("document.querySelector('#stop').hidden")
    page.wait(f"!!{last('.message.assistant')} && !!{last('.message.assistant')}.querySelector('footer .row')")
    page.wait(f"!{last('.message.assistant')}.querySelector('.text[aria-busy]')")


def wait_for_answer(page):
    wait_until_drawn(page)
    return page.js(f"{last('.message.assistant')}.querySelector('.text').innerText.trim()")


def send(page, text):
    before = page.js("document.querySelectorAll('.message').length")
    page.type("#input", text)
    page.enter()
    page.wait(f"document.querySelectorAll('.message').length > {before}")


def ask(page, text):
    """Sends a message and returns the text of the answer."""
    send(page, text)
    return wait_for_answer(page)


def no_faults(page):
    faults = [f for f in page.faults() if "favicon" not in f]
    assert not faults, "\n".join(faults)


def skip_without_browser():
    if program() is None:
        print(f"skipped: no {Browser.name}")
        sys.exit(SKIPPED)


def data(*names):
    return os.path.join(os.environ["DATA"], *names)
