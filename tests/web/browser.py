# SPDX-License-Identifier: Apache-2.0
"""browser.py - headless Chromium, driven over the DevTools protocol through a pipe.

No driver program and no WebSocket is needed: --remote-debugging-pipe reads commands from descriptor 3 and writes
replies and events to descriptor 4, as JSON with a zero byte at the end. A Page waits for conditions instead of sleeping,
clicks with real mouse events, and records what must not happen: exceptions and violations of the policy.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

from page_base import PATIENCE, READY, WATCH_POLICY, Closing, PageBase

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")

# Runs in every page before its own scripts.
WATCH = WATCH_POLICY + """
new PerformanceObserver((list) => window.__long.push(...list.getEntries().map((e) => e.duration)))
  .observe({type: "longtask", buffered: true});
"""


def program():
    """Path of the browser; None: there is none."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class Browser(Closing):
    name = "chromium"

    def __init__(self, *flags):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-chromium-", ignore_cleanup_errors=True)
        to_browser, self.out = os.pipe()
        self.inlet, from_browser = os.pipe()
        command = [program(), "--headless=new", "--remote-debugging-pipe", f"--user-data-dir={self.directory.name}",
                   "--no-first-run", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking",
                   "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream", "--window-size=1200,800",
                   *(["--no-sandbox"] if os.getuid() == 0 else []), *flags, "about:blank"]
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "sh", *command],
                                        pass_fds=(to_browser, from_browser), stdout=self.log, stderr=self.log,
                                        env={**os.environ, "HOME": self.directory.name})
        os.close(to_browser)
        os.close(from_browser)
        self.buffer, self.number, self.events, self.replies = b"", 0, {}, {}

    def receive(self, timeout):
        """Reads what has arrived, for at most `timeout` seconds. False: nothing."""
        if not select.select([self.inlet], [], [], timeout)[0]:
            return False
        data = os.read(self.inlet, 1 << 20)
        if not data:
            self.log.seek(0)
            raise RuntimeError("the browser has ended:\n" + self.log.read().decode(errors="replace")[-4000:])
        *texts, self.buffer = (self.buffer + data).split(b"\0")
        for message in map(json.loads, texts):
            if "id" in message:
                self.replies[message["id"]] = message
            else:
                self.events.setdefault(message.get("sessionId"), []).append(message)
        return True

    def call(self, method, session=None, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.out, data):]
        end = time.monotonic() + PATIENCE
        while self.number not in self.replies:
            if time.monotonic() > end:
                raise TimeoutError(method)
            self.receive(1)
        reply = self.replies.pop(self.number)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        return reply["result"]

    def page(self, url, width=1200, height=800, dark=False, mobile=False):
        return Page(self, url, width, height, dark, mobile)

    def close(self):
        try:
            self.call("Browser.close")
        except (RuntimeError, TimeoutError, BrokenPipeError):
            self.process.kill()
        self.process.wait(PATIENCE)
        os.close(self.out)
        os.close(self.inlet)
        self.directory.cleanup()


class Page(PageBase):
    def __init__(self, browser, url, width, height, dark, mobile):
        self.browser = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        self.target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.call("Target.attachToTarget", targetId=self.target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "DOM"):
            self.call(f"{domain}.enable")
        self.preload(WATCH)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        if url:
            self.open(url)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def preload(self, source):
        """A script that runs in every document of the page before its own ones."""
        self.call("Page.addScriptToEvaluateOnNewDocument", source=source)

    def navigate(self, url):
        """Without waiting for the page."""
        self.call("Page.navigate", url=url)

    def open(self, url):
        self.navigate(url)
        self.wait(READY)

    def reload(self):
        self.js("document.body.dataset.ready = ''")
        self.call("Page.reload")
        self.wait(READY)

    def js(self, expression):
        """The value of an expression, which may be a promise."""
        reply = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in reply:
            details = reply["exceptionDetails"]
            raise RuntimeError(f"{expression[:200]}: {details.get('exception', {}).get('description', details['text'])}")
        return reply["result"].get("value")

    def click(self, selector, text=None):
        x, y = self.place(selector, text)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def key(self, key, code=0, modifiers=0, text=None):
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                  **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code, modifiers=modifiers)

    def enter(self):
        self.key("Enter", 13, text="\r")

    def type(self, selector, text):
        """Replaces the text of a field."""
        self.click(selector)
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.call("Input.insertText", text=text)

    def set_files(self, selector, *paths):
        document = self.call("DOM.getDocument")["root"]["nodeId"]
        node = self.call("DOM.querySelector", nodeId=document, selector=selector)["nodeId"]
        self.call("DOM.setFileInputFiles", nodeId=node, files=[str(p) for p in paths])

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def faults(self):
        """Exceptions, errors of the console and violations of the policy, since the page was made."""
        self.browser.receive(0)
        out = []
        for event in self.browser.events.get(self.session, []):
            if event["method"] == "Runtime.exceptionThrown":
                details = event["params"]["exceptionDetails"]
                out.append(details.get("exception", {}).get("description", details["text"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["source"] in ("security", "javascript"):
                out.append(event["params"]["entry"]["text"])
        return out + self.violations()

    def requests(self):
        """The URLs of all requests."""
        return [e["params"]["request"]["url"] for e in self.browser.events.get(self.session, [])
                if e["method"] == "Network.requestWillBeSent"]

    def download_to(self, directory):
        """Returns where downloads are found from now on."""
        self.browser.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=directory, browserContextId=self.context,
                          eventsEnabled=False)
        return directory

    def clipboard(self):
        self.browser.call("Browser.grantPermissions", permissions=["clipboardReadWrite"], browserContextId=self.context)
        return self.js("navigator.clipboard.readText()")

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
