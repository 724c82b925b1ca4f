# SPDX-License-Identifier: Apache-2.0
"""firefox.py - headless Firefox with the methods of browser.py, driven over WebDriver BiDi.

Firefox supports the protocol itself, over a WebSocket: no driver program is needed. MOTE_BROWSER=firefox selects it for the
tests of the chat page (scripts/web_firefox). Dark colours and phones cannot be emulated: such a page is light, and narrow.
"""
import base64
import collections
import json
import os
import pathlib
import secrets
import shutil
import select
import socket
import struct
import subprocess
import tempfile
import time

from page_base import PATIENCE, READY, WATCH_POLICY, Closing, PageBase

PROGRAMS = ("firefox-esr", "firefox")
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Tab": "\ue004"}
MODIFIERS = {1: "\ue00a", 2: "\ue009", 8: "\ue008"}  # Alt, Control, Shift
PREFERENCES = {
    "browser.shell.checkDefaultBrowser": False, "browser.aboutwelcome.enabled": False, "app.update.auto": False,
    "datareporting.policy.dataSubmissionEnabled": False, "network.captive-portal-service.enabled": False,
    "network.connectivity-service.enabled": False, "media.navigator.streams.fake": True,
    "media.navigator.permission.disabled": True, "dom.disable_open_during_load": False, "browser.download.folderList": 2,
    "browser.download.useDownloadDir": True, "browser.download.always_ask_before_handling_new_types": False,
    "browser.download.alwaysOpenPanel": False, "dom.events.testing.asyncClipboard": True,
}
# As in browser.py. Firefox does not report long tasks: the longest time between two ticks of a timer, less its period.
WATCH = WATCH_POLICY + """
let tick = performance.now();
setInterval(() => {
  const now = performance.now();
  if (now - tick > 60) window.__long.push(now - tick - 10);
  tick = now;
}, 10);
"""


def program():
    """Path of the browser; None: there is none."""
    return next((path for path in map(shutil.which, PROGRAMS) if path), None)


class WebSocket:
    """A client: text messages, complete or in parts."""

    def __init__(self, host, port, path):
        self.socket = socket.create_connection((host, port), PATIENCE)
        key = base64.b64encode(secrets.token_bytes(16)).decode()
        self.socket.sendall((f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                             f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n").encode())
        self.buffer = b""
        while b"\r\n\r\n" not in self.buffer:
            self.buffer += self.socket.recv(4096)
        head, self.buffer = self.buffer.split(b"\r\n\r\n", 1)
        if b" 101 " not in head.split(b"\r\n")[0]:
            raise RuntimeError(head.decode())
        self.parts = b""

    def send(self, text):
        data = text.encode()
        size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack(">H", len(data)) \
            if len(data) < 65536 else b"\xff" + struct.pack(">Q", len(data))
        mask = secrets.token_bytes(4)
        masked = bytes(b ^ mask[i % 4] for i, b in enumerate(data))
        self.socket.sendall(b"\x81" + size + mask + masked)

    def frame(self):
        """Takes a frame from the buffer: (first byte, data); None: it is not complete."""
        b = self.buffer
        if len(b) < 2:
            return None
        n, at = b[1] & 127, 2
        if n == 126 and len(b) >= 4:
            n, at = struct.unpack(">H", b[2:4])[0], 4
        elif n == 127 and len(b) >= 10:
            n, at = struct.unpack(">Q", b[2:10])[0], 10
        elif n >= 126:
            return None
        if len(b) < at + n:
            return None
        self.buffer = b[at + n:]
        return b[0], b[at:at + n]

    def receive(self, timeout):
        """Messages that have arrived, after at most `timeout` seconds."""
        if not select.select([self.socket], [], [], timeout)[0]:
            return []
        data = self.socket.recv(1 << 20)
        if not data:
            raise RuntimeError("the browser has ended")
        self.buffer += data
        out = []
        while (frame := self.frame()) is not None:
            first, data = frame
            if first & 15 <= 2:
                self.parts += data
                if first & 0x80:
                    out.append(self.parts.decode())
                    self.parts = b""
        return out


def value_of(remote):
    """The Python value of a remote value of the protocol."""
    kind, value = remote["type"], remote.get("value")
    if kind in ("array", "set", "nodelist", "htmlcollection"):
        return [value_of(v) for v in value or []]
    if kind == "object":
        return {k if isinstance(k, str) else value_of(k): value_of(v) for k, v in value or []}
    if kind in ("string", "number", "boolean"):
        return {"NaN": float("nan"), "Infinity": float("inf"), "-Infinity": float("-inf"), "-0": 0}.get(value, value) \
            if kind == "number" and isinstance(value, str) else value
    return None if kind in ("null", "undefined") else remote


class Browser(Closing):
    name = "firefox"

    def __init__(self):
        self.directory = tempfile.TemporaryDirectory(prefix="mote-firefox-", ignore_cleanup_errors=True)
        profile = pathlib.Path(self.directory.name, "profile")
        profile.mkdir()
        self.downloads = pathlib.Path(self.directory.name, "downloads")
        self.downloads.mkdir()
        wanted = {**PREFERENCES, "browser.download.dir": str(self.downloads)}
        (profile / "user.js").write_text("".join(f"user_pref({json.dumps(k)}, {json.dumps(v)});\n" for k, v in wanted.items()),
                                         encoding="utf-8")
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program(), "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0", "about:blank"],
            stdout=self.log, stderr=self.log, env={**os.environ, "HOME": self.directory.name, "MOZ_CRASHREPORTER_DISABLE": "1"})
        self.number, self.events, self.replies = 0, collections.defaultdict(list), {}
        self.socket = WebSocket("127.0.0.1", self.port(profile / "WebDriverBiDiServer.json"), "/session")
        self.version = self.call("session.new", capabilities={})["capabilities"]["browserVersion"]
        self.call("session.subscribe", events=["log.entryAdded", "network.beforeRequestSent"])

    def port(self, path):
        """Firefox writes the port into its profile."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and self.process.poll() is None:
            try:
                return json.loads(path.read_text(encoding="utf-8"))["ws_port"]
            except (FileNotFoundError, ValueError):
                time.sleep(0.05)
        self.log.seek(0)
        raise RuntimeError("the browser did not start:\n" + self.log.read().decode(errors="replace")[-4000:])

    def receive(self, timeout):
        messages = [json.loads(text) for text in self.socket.receive(timeout)]
        for message in messages:
            if message["type"] == "event":
                params = message["params"]
                context = params.get("context") or params.get("source", {}).get("context")
                self.events[context].append(message)
            else:
                self.replies[message["id"]] = message
        return bool(messages)

    def call(self, method, **params):
        self.number += 1
        self.socket.send(json.dumps({"id": self.number, "method": method, "params": params}))
        end = time.monotonic() + PATIENCE
        while self.number not in self.replies:
            if time.monotonic() > end:
                raise TimeoutError(method)
            self.receive(1)
        reply = self.replies.pop(self.number)
        if reply["type"] == "error":
            raise RuntimeError(f"{method}: {reply['error']}: {reply['message']}")
        return reply["result"]

    def page(self, url, width=1200, height=800, **_):
        return Page(self, url, width, height)

    def close(self):
        try:
            self.call("browser.close")
            self.process.wait(PATIENCE)
        except (RuntimeError, TimeoutError, OSError):
            self.process.kill()
            self.process.wait(PATIENCE)
        self.directory.cleanup()


class Page(PageBase):
    def __init__(self, browser, url, width, height):
        self.browser = browser
        self.user = browser.call("browser.createUserContext")["userContext"]
        self.context = browser.call("browsingContext.create", type="tab", userContext=self.user)["context"]
        self.preload(WATCH)
        self.call("browsingContext.setViewport", viewport={"width": width, "height": height})
        if url:
            self.open(url)

    def call(self, method, **params):
        return self.browser.call(method, context=self.context, **params)

    def preload(self, source):
        """A document without an origin, such as about:blank, has no storage: nothing runs there."""
        self.browser.call("script.addPreloadScript", functionDeclaration="() => { if (!location.href.startsWith('http')) return; " + source + "}",
                          contexts=[self.context])

    def navigate(self, url):
        self.call("browsingContext.navigate", url=url, wait="none")

    def open(self, url):
        self.navigate(url)
        self.wait("location.href !== 'about:blank' && " + READY)

    def reload(self):
        self.js("document.body.dataset.ready = ''")
        self.call("browsingContext.reload", wait="complete")
        self.wait(READY)

    def js(self, expression):
        reply = self.browser.call("script.evaluate", expression=expression, target={"context": self.context}, awaitPromise=True,
                                  userActivation=True, serializationOptions={"maxObjectDepth": 12})
        if reply["type"] == "exception":
            raise RuntimeError(f"{expression[:200]}: {reply['exceptionDetails']['text']}")
        return value_of(reply["result"])

    def click(self, selector, text=None):
        x, y = self.place(selector, text)
        self.call("input.performActions", actions=[{
            "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}, "actions": [
                {"type": "pointerMove", "x": round(x), "y": round(y), "origin": "viewport"},
                {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]}])

    def key(self, key, code=0, modifiers=0, text=None):
        held = [value for bit, value in MODIFIERS.items() if modifiers & bit]
        press = [*held, KEYS.get(key, key)]
        self.call("input.performActions", actions=[{"type": "key", "id": "keyboard", "actions": [
            *({"type": "keyDown", "value": v} for v in press), *({"type": "keyUp", "value": v} for v in reversed(press))]}])

    def enter(self):
        self.key("Enter")

    def type(self, selector, text):
        self.click(selector)
        self.js(f"document.querySelector({json.dumps(selector)}).select()")
        self.js(f"document.execCommand('insertText', false, {json.dumps(text)})")

    def set_files(self, selector, *paths):
        nodes = self.call("browsingContext.locateNodes", locator={"type": "css", "value": selector})["nodes"]
        self.call("input.setFiles", element={"sharedId": nodes[0]["sharedId"]}, files=[str(p) for p in paths])

    def screenshot(self, path):
        data = self.call("browsingContext.captureScreenshot")["data"]
        with open(path, "wb") as f:
            f.write(base64.b64decode(data))

    def requests(self):
        return [e["params"]["request"]["url"] for e in self.browser.events[self.context]
                if e["method"] == "network.beforeRequestSent"]

    def download_to(self, _):
        """All downloads go to one directory, which is returned."""
        for path in self.browser.downloads.iterdir():
            path.unlink()
        return self.browser.downloads

    def clipboard(self):
        return self.js("navigator.clipboard.readText()")

    def faults(self):
        self.browser.receive(0)
        out = [e["params"]["text"] for e in self.browser.events[self.context]
               if e["method"] == "log.entryAdded" and e["params"]["level"] == "error" and e["params"]["type"] == "javascript"]
        return out + self.violations()

    def close(self):
        self.call("browsingContext.close")
        self.browser.call("browser.removeUserContext", userContext=self.user)
