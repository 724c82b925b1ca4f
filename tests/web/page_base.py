# SPDX-License-Identifier: Apache-2.0
"""page_base.py - what a page does in the same way in every browser; browser.py and firefox.py add the protocol.

A page has the methods js, faults and close, and `browser`; browser.receive(seconds) waits for events.
"""
import json
import time

PATIENCE = 120
READY = "document.body && document.body.dataset.ready === 'true'"
# Runs in every page before its own scripts: violations of the policy, and where long tasks are collected.
WATCH_POLICY = """
window.__violations = [];
document.addEventListener("securitypolicyviolation", (e) => window.__violations.push(e.violatedDirective + " " + e.blockedURI));
window.__long = [];
"""


class Closing:
    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class PageBase(Closing):
    def wait(self, expression, timeout=PATIENCE):
        """Waits until the expression is true, and returns its value."""
        end = time.monotonic() + timeout
        while True:
            try:
                value = self.js(expression)
            except RuntimeError:
                value = None  # the document is being replaced
            if value:
                return value
            if time.monotonic() > end:
                raise TimeoutError(f"not true after {timeout} s: {expression}\n{self.faults()}\n{self.text()[-2000:]}")
            self.browser.receive(0.02)

    def text(self):
        return self.js("document.body ? document.body.innerText : ''")

    def place(self, selector, text=None):
        """Centre of the last visible element that matches, scrolled into view."""
        find = (f"[...document.querySelectorAll({json.dumps(selector)})].filter((e) => e.offsetParent !== null && !e.disabled && "
                f"({json.dumps(text)} === null || e.textContent.trim() === {json.dumps(text)})).pop()")
        return self.wait(f"(() => {{ const e = {find}; if (!e) return null; e.scrollIntoView({{block: 'center', behavior: 'instant'}}); "
                         "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")

    def choose(self, selector, value):
        self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.value = {json.dumps(value)}; "
                "e.dispatchEvent(new Event('change', {bubbles: true})); })()")

    def violations(self):
        """Of the policy, or the error that prevents reading them."""
        try:
            return self.js("window.__violations || []")
        except RuntimeError as error:
            return [str(error)]
