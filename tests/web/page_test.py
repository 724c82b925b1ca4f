# SPDX-License-Identifier: Apache-2.0
"""page_test.py - every control of the chat page in a browser, against a server with mote-tiny and mote-tiny-vision."""
import base64
import json
import pathlib
import sys
import tempfile

from page_rig import (KEY, VISION_MODEL, Browser, Server, ask, case, data, equal, examples, last, main, no_faults, open_page,
                      skip_without_browser, wait_for_answer)
from rig import (FACT, FACT_ANSWER, IDENTITY, IDENTITY_ANSWER, POINT, POINT_SCHEMA, WEATHER, WEATHER_ANSWER, WEATHER_RESULT,
                 WEATHER_TOOL)

ALT = 1


def image_file(page, example, event):
    """Gives an image to the page as a paste or drop of the user would."""
    url = "data:image/png;base64," + base64.b64encode(example.image).decode()
    target = "document.querySelector('#input')" if event == "paste" else "document.querySelector('#chat')"
    kind = ("new ClipboardEvent('paste', {clipboardData: d, bubbles: true, cancelable: true})" if event == "paste"
            else "new DragEvent('drop', {dataTransfer: d, bubbles: true, cancelable: true})")
    page.js(f"""(() => {{
      const bytes = Uint8Array.from(atob({json.dumps(url)}.split(',')[1]), (c) => c.charCodeAt(0));
      const d = new DataTransfer();
      d.items.add(new File([bytes], 'shape.png', {{type: 'image/png'}}));
      const event = {kind};
      // Firefox leaves the files of a paste out that a script has made
      if (event.clipboardData && event.clipboardData.files.length === 0) Object.defineProperty(event, 'clipboardData', {{value: d}});
      {target}.dispatchEvent(event);
    }})()""")


@case
def key_is_requested_and_stays_in_the_tab(browser, server):
    with browser.page(None) as page:
        page.navigate(server.url + "/")
        page.wait("document.querySelector('#key').open")
        page.type("#key-input", "wrong-key")
        page.click("#key button", "Use key")
        page.wait("document.querySelector('#key').open && document.querySelector('#banner').innerText.includes('unknown API key')")
        page.type("#key-input", KEY)
        page.click("#key button", "Use key")
        page.wait("document.body.dataset.ready === 'true' && document.querySelector('#banner').hidden")
        equal(page.js("document.querySelectorAll('#model option').length"), 2)
        equal(page.js("sessionStorage.getItem('mote-key')"), KEY)
        assert KEY not in page.js("JSON.stringify({...localStorage}) + document.documentElement.outerHTML + document.cookie")


@case
def keys_that_cannot_be_sent_are_refused(browser, server):
    """A key copied from a document may have a zero-width space or a typographic dash."""
    with browser.page(None) as page:
        # as if an earlier page had stored it
        page.preload("if (!sessionStorage.getItem('mote-seen')) {"
                     "sessionStorage.setItem('mote-seen', 'yes'); sessionStorage.setItem('mote-key', 'test\\u200bkey'); }")
        page.navigate(server.url + "/")
        page.wait("document.querySelector('#key').open && document.querySelector('#key').innerText.includes('enter the key again')")
        equal(page.js("sessionStorage.getItem('mote-key')"), None)
        for key, code in ((KEY[:5] + "\u200b" + KEY[5:], "Character 6 of this key is U+200B"), (KEY.replace("-", "\u2013"), "is U+2013"),
                          (KEY + " x", "is U+0020"), ("\u00e9", "Character 1 of this key is U+00E9")):
            page.type("#key-input", key)
            page.click("#key button", "Use key")
            page.wait(f"document.querySelector('#key').open && document.querySelector('#key-fault').textContent.includes({json.dumps(code)})")
            equal(page.js("sessionStorage.getItem('mote-key')"), None)
        page.type("#key-input", f" {KEY} ")
        page.enter()
        page.wait("document.body.dataset.ready === 'true' && document.querySelector('#banner').hidden")
        equal(page.js("[sessionStorage.getItem('mote-key'), document.querySelector('#key').open]"), [KEY, False])
        no_faults(page)


@case
def chat_is_streamed_stored_and_found(browser, server):
    with open_page(browser, server) as page:
        equal(ask(page, FACT), FACT_ANSWER)
        stats = page.js(f"{last('.stats')}.textContent")
        assert "tokens/s" in stats and "prefilled" in stats and "Drafts accepted" in stats, stats
        assert " of 32,768 (" in page.js("document.querySelector('#usage').textContent")
        for question in ("What is 2 + 2?", IDENTITY, FACT, IDENTITY):  # short prompts are not cached
            ask(page, question)
        stats = page.js(f"{last('.stats')}.textContent")
        assert "reused from" in stats, stats
        page.reload()
        equal(page.js("document.querySelectorAll('.message').length"), 0)
        page.type("#search", "no such text")
        page.wait("document.querySelectorAll('#conversations li').length === 0")
        page.type("#search", "THE OWL")  # a text of the answer
        page.click("#conversations .title", FACT)
        page.wait("document.querySelectorAll('.message').length === 10")
        page.wait(f"document.querySelectorAll('.message.assistant .text')[0].innerText.trim() === {json.dumps(FACT_ANSWER)}")
        # a new chat, then the old one is deleted
        page.click("#new-chat")
        equal(page.js("document.querySelectorAll('.message').length"), 0)
        page.click("#conversations button", "Delete")
        page.click("#conversations button", "Really?")
        page.type("#search", " ")
        page.wait("document.querySelectorAll('#conversations li').length === 0")
        no_faults(page)


@case
def edits_and_new_answers_are_branches(browser, server):
    with open_page(browser, server) as page:
        ask(page, "What is 2 + 2?")
        ask(page, IDENTITY)
        page.click(".message.user:first-child footer button", "Edit")
        page.type(".message.user textarea", FACT)
        page.enter()
        page.wait("document.querySelectorAll('.message').length === 2")
        equal(wait_for_answer(page), FACT_ANSWER)
        equal(page.js("document.querySelector('.branches .count').textContent"), "2 / 2")
        page.click(".branches button[aria-label='Previous version']")
        page.wait("document.querySelectorAll('.message').length === 4")
        page.click(".message.assistant:last-child footer button", "Regenerate")
        page.wait(f"{last('.branches .count')}.textContent === '2 / 2'")
        wait_for_answer(page)
        equal(page.js("document.querySelectorAll('.message').length"), 4)
        # the tree is stored
        page.reload()
        page.click("#conversations .title")
        page.wait("document.querySelectorAll('.branches').length === 2")
        no_faults(page)


@case
def every_message_can_be_edited(browser, server):
    """An answer that is edited is a version of its own, which the conversation continues from."""
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.click(".message.assistant footer button", "Edit")
        page.type(".message.assistant textarea", "The emblem is the *fox*.")
        page.key("Escape", 27)
        page.wait(f"document.querySelector('.message.assistant .text').innerText.trim() === {json.dumps(FACT_ANSWER)}")
        page.click(".message.assistant footer button", "Edit")
        page.type(".message.assistant textarea", "The emblem is the *fox*.")
        page.click(".message.assistant footer button", "Save as version")
        page.wait("document.querySelector('.message.assistant em') && document.querySelector('.branches .count').textContent === '2 / 2'")
        equal(page.js("document.querySelectorAll('.message').length"), 2)
        no_faults(page)
    with open_page(browser, server, {"tools": json.dumps([WEATHER_TOOL])}) as page:
        ask(page, WEATHER)
        page.type(".results textarea", "no result")
        page.click(".results button", "Send results")
        page.wait("document.querySelectorAll('.message.assistant').length === 2")
        wait_for_answer(page)
        page.click(".message.tool footer button", "Edit")
        page.type(".message.tool textarea", WEATHER_RESULT)
        page.enter()
        page.wait("document.querySelector('.message.tool .branches') && document.querySelector('.message.tool .branches .count').textContent === '2 / 2'")
        equal(wait_for_answer(page), WEATHER_ANSWER)
        no_faults(page)


@case
def texts_are_copied(browser, server):
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.click(".message.assistant footer button", "Copy")
        page.wait("document.querySelector('#announce').textContent === 'Copied.'")
        equal(page.clipboard(), FACT_ANSWER)


@case
def misses_have_a_reason(browser, _):
    """A prompt that differs early says where, and what was there."""
    filler = "The clever duck walked to the market in the morning. " * 15
    with Server() as server, open_page(browser, server, {"system": filler + "One."}) as page:
        ask(page, FACT)
        page.click("#new-chat")
        page.click("#open-settings")
        page.type("#set-system", "Now: " + filler + "Two.")
        page.click("#settings button", "Save")
        page.wait("!document.querySelector('#settings').open")
        ask(page, FACT)
        stats = page.js(f"{last('.stats')}.textContent")
        assert "Not reused after" in stats and "What differs" in stats, stats


@case
def thinking_is_collapsed(browser, server):
    with open_page(browser, server) as page:
        page.choose("#thinking", "high")
        answer = ask(page, IDENTITY)
        assert IDENTITY_ANSWER in answer, answer
        page.wait("document.querySelector('.thinking summary').textContent.startsWith('Thought for')")
        equal(page.js("document.querySelector('.thinking').open"), False)
        page.click(".thinking summary")
        page.wait("document.querySelector('.thinking').open && document.querySelector('.thinking-text').innerText.length > 0")
        page.choose("#thinking", "none")
        ask(page, FACT)
        equal(page.js("document.querySelectorAll('.thinking').length"), 1)
        no_faults(page)


@case
def tools_are_called_and_answered(browser, server):
    with open_page(browser, server) as page:
        page.click("#open-settings")
        page.type("#set-tools", "{not JSON")
        page.click("#settings button", "Save")
        page.wait("document.querySelector('#settings-fault').textContent.startsWith('JSON')")
        page.type("#set-tools", json.dumps([WEATHER_TOOL]))
        page.click("#settings button", "Save")
        page.wait("!document.querySelector('#settings').open")
        ask(page, WEATHER)
        call = page.js("document.querySelector('.call').innerText")
        assert "get_weather" in call and "Haldon" in call, call
        page.type(".results textarea", WEATHER_RESULT)
        page.click(".results button", "Send results")
        page.wait("document.querySelectorAll('.message.assistant').length === 2")
        equal(wait_for_answer(page), WEATHER_ANSWER)
        no_faults(page)


@case
def schema_answers_are_tables(browser, server):
    with open_page(browser, server, {"schema": json.dumps(POINT_SCHEMA)}) as page:
        ask(page, POINT)
        equal(page.js("[...document.querySelectorAll('table.json tr')].map((r) => r.innerText.replace(/\\s+/g, ' ').trim())"),
              ["x 91", "y 26"])
        page.click("footer button", "Source")
        page.wait("document.querySelector('.message.assistant .mono') && document.querySelector('.message.assistant .mono').textContent.includes('\"x\"')")
        page.click("footer button", "Source")
        page.wait("!!document.querySelector('table.json')")
        no_faults(page)


@case
def tokens_have_alternatives(browser, server):
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.click("footer button", "Tokens")
        tokens = page.js("[...document.querySelectorAll('.tokens button')].map((b) => b.textContent).join('')")
        equal(tokens.strip(), FACT_ANSWER)
        page.click(".tokens button")
        page.wait("document.querySelector('#alternatives').open")
        equal(page.js("document.querySelectorAll('#alternatives tbody tr').length"), 5)
        assert "%" in page.js("document.querySelector('#alternatives').innerText")
        page.key("Escape", 27)
        page.wait("!document.querySelector('#alternatives').open")
        page.click("footer button", "Tokens")
        page.wait(f"document.querySelector('.message.assistant .text').innerText.trim() === {json.dumps(FACT_ANSWER)}")
        no_faults(page)


@case
def images_by_file_paste_and_drop(browser, server):
    chosen = examples(data())[:3]
    with open_page(browser, server) as page:
        page.choose("#model", page.js("[...document.querySelectorAll('#model option')].pop().value"))
        for example, way in zip(chosen, ("file", "paste", "drop")):
            if way == "file":
                page.set_files("#attach-file", example.path)
            else:
                image_file(page, example, way)
            page.wait("document.querySelectorAll('#attachments li').length === 1")
            equal(ask(page, example.question), example.answer)
            page.wait("document.querySelectorAll('#attachments li').length === 0")
            page.click("#new-chat")
        image_file(page, chosen[0], "drop")
        page.click("#attachments button", "Remove")
        page.wait("document.querySelectorAll('#attachments li').length === 0")
        no_faults(page)


@case
def camera_and_video(browser, server):
    with open_page(browser, server) as page:
        page.choose("#model", page.js("[...document.querySelectorAll('#model option')].pop().value"))
        page.click("#camera")
        page.click("#camera-dialog button", "Take photo")
        page.wait("document.querySelectorAll('#attachments img').length === 1 && !document.querySelector('#camera-dialog').open")
        page.js("""(async () => {
          const canvas = document.createElement("canvas");
          canvas.width = canvas.height = 128;
          const draw = canvas.getContext("2d");
          const recorder = new MediaRecorder(canvas.captureStream(20), {mimeType: "video/webm"});
          const parts = [];
          recorder.ondataavailable = (e) => parts.push(e.data);
          const done = new Promise((resolve) => (recorder.onstop = resolve));
          recorder.start();
          for (let i = 0; i < 20; i++) {
            draw.fillStyle = "white"; draw.fillRect(0, 0, 128, 128);
            draw.fillStyle = "red"; draw.fillRect(5 * i, 50, 20, 20);
            await new Promise((resolve) => setTimeout(resolve, 50));
          }
          recorder.stop();
          await done;
          const d = new DataTransfer();
          d.items.add(new File(parts, "ball.webm", {type: "video/webm"}));
          document.querySelector("#chat").dispatchEvent(new DragEvent("drop", {dataTransfer: d, bubbles: true, cancelable: true}));
        })()""")
        page.wait("document.querySelectorAll('#attachments li').length === 2")
        assert ask(page, "What is this?")
        assert "frames" in page.js("document.querySelector('.media').innerText")
        assert "pixels" in page.js(f"{last('.stats')}.textContent")
        no_faults(page)


@case
def conversations_are_exported_and_imported(browser, server):
    with open_page(browser, server) as page, tempfile.TemporaryDirectory() as directory:
        downloads = page.download_to(directory)
        ask(page, FACT)
        page.click("footer button", "Regenerate")
        page.wait("!!document.querySelector('.branches')")
        wait_for_answer(page)
        files = {}
        for control, name in (("#export-json", "mote-conversations.json"), ("#export-markdown", "mote-conversation.md")):
            page.click(control)
            path = pathlib.Path(downloads, name)
            while not path.exists() or path.stat().st_size == 0:
                browser.receive(0.05)
            files[name] = path
        exported = json.loads(files["mote-conversations.json"].read_text(encoding="utf-8"))
        equal(len(exported["conversations"][0]["messages"]), 3)
        assert FACT_ANSWER in files["mote-conversation.md"].read_text(encoding="utf-8")
        for number, path in enumerate(files.values(), 2):
            page.set_files("#import-file", path)
            page.wait(f"document.querySelectorAll('#conversations li').length === {number}")
        page.click("#conversations li:nth-child(2) .title")
        page.wait("document.querySelectorAll('.message').length === 2")
        broken = pathlib.Path(directory, "broken.json")
        broken.write_text('{"format": "other"}', encoding="utf-8")
        page.set_files("#import-file", broken)
        page.wait("document.querySelector('#status').textContent.includes('could not be imported')")
        no_faults(page)


@case
def attachments_are_exported(browser, server):
    example = examples(data())[0]
    with open_page(browser, server) as page, tempfile.TemporaryDirectory() as directory:
        downloads = page.download_to(directory)
        page.choose("#model", page.js("[...document.querySelectorAll('#model option')].pop().value"))
        image_file(page, example, "paste")
        page.wait("document.querySelectorAll('#attachments li').length === 1")
        equal(ask(page, example.question), example.answer)
        page.click("#export-json")
        path = pathlib.Path(downloads, "mote-conversations.json")
        while not path.exists() or path.stat().st_size == 0:
            browser.receive(0.05)
        page.click("#conversations button", "Delete")
        page.click("#conversations button", "Really?")
        page.wait("document.querySelectorAll('#conversations li').length === 0")
        page.set_files("#import-file", path)
        page.click("#conversations .title")
        page.wait("document.querySelector('.message.user .media img') && document.querySelector('.message.user .media img').naturalWidth > 0")


@case
def settings_reach_the_server(browser, server):
    with open_page(browser, server) as page:
        page.click("#open-settings")
        page.type("#set-seed", "4711")
        page.type("#set-max_tokens", "5")
        page.type("#set-system", "You are short.")
        page.click("#settings button", "Save")
        page.wait("!document.querySelector('#settings').open")
        ask(page, FACT)
        stats = page.js(f"{last('.stats')}.textContent")
        assert "Seed4711" in stats and "max_tokens" in stats, stats
        assert "limit of tokens" in page.js(f"{last('.message.assistant')}.innerText")
        page.click("#open-settings")
        equal(page.js("document.querySelector('#set-system').value"), "You are short.")
        page.click("#settings button", "Defaults of the model")
        page.wait("document.querySelector('#set-seed').value === ''")
        page.click("#settings button", "Cancel")
        no_faults(page)


@case
def dashboard_shows_the_server(browser, server):
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.click("#tab-dashboard")
        page.wait("document.querySelectorAll('.chart polyline').length > 0")
        text = page.wait("document.querySelector('#dashboard').innerText.includes('Recurrent state') && "
                         "document.querySelector('#dashboard').innerText")
        for word in ("Memory", "Weights", "KV cache", "p99", "running", "Time to first token"):
            assert word in text, word
        page.wait("[...document.querySelectorAll('.legend li')].some((l) => l.textContent.startsWith('generated'))")
        page.click("#tab-chat")
        page.wait("!document.querySelector('#chat').hidden && document.querySelectorAll('.message').length === 2")
        no_faults(page)


@case
def dashboard_needs_its_scope(browser, _):
    """Without API keys every client may chat, and the key of the user opens the dashboard."""
    with Server(key=None) as server, open_page(browser, server) as page:
        equal(ask(page, FACT), FACT_ANSWER)
        page.click("#tab-dashboard")
        page.wait("document.querySelector('#dashboard').innerText.includes('scope')")
        page.click("#dashboard button", "Enter a key")
        page.type("#key-input", server.local_key().strip())
        page.click("#key button", "Use key")
        page.wait("document.querySelectorAll('.chart polyline').length > 0 && !!document.querySelector('.tiles dd')")


@case
def keyboard(browser, server):
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.key("n", 78, ALT)
        equal(page.js("[document.querySelectorAll('.message').length, document.activeElement.id]"), [0, "input"])
        for key, code, focused in (("s", 83, "search"), ("m", 77, "model"), ("i", 73, "input")):
            page.key(key, code, ALT)
            equal(page.js("document.activeElement.id"), focused)
        page.key("d", 68, ALT)
        page.wait("!document.querySelector('#dashboard').hidden")
        page.key("d", 68, ALT)
        page.wait("!document.querySelector('#chat').hidden")
        page.key(",", 188, ALT)
        page.wait("document.querySelector('#settings').open")
        page.key("Escape", 27)
        page.wait("!document.querySelector('#settings').open")
        # Shift+Enter is a new line
        page.type("#input", "a")
        page.key("Enter", 13, 8, "\r")
        equal(page.js("[document.querySelector('#input').value, document.querySelectorAll('.message').length]"), ["a\n", 0])


@case
def phone_and_right_to_left(browser, server):
    with open_page(browser, server, width=360, height=640, mobile=True) as page:
        ask(page, "\u0645\u0631\u062d\u0628\u0627 \u0628\u0643")
        equal(page.js("getComputedStyle(document.querySelector('.message.user .plain')).direction"), "rtl")
        equal(page.js("document.documentElement.scrollWidth <= window.innerWidth"), True)
        equal(page.js("getComputedStyle(document.querySelector('#sidebar')).display"), "none")
        page.click("#menu")
        page.wait("getComputedStyle(document.querySelector('#sidebar')).display === 'flex'")
        page.click("#conversations .title")
        page.wait("getComputedStyle(document.querySelector('#sidebar')).display === 'none'")
        page.click("#tab-dashboard")
        page.wait("document.querySelectorAll('.chart polyline').length > 0")
        equal(page.js("document.documentElement.scrollWidth <= window.innerWidth"), True)
        no_faults(page)


@case
def restart_keeps_the_conversation(browser, _):
    with Server() as first, open_page(browser, first) as page:
        ask(page, FACT)
        first.stop()
        page.type("#input", IDENTITY)
        page.enter()
        page.wait("!document.querySelector('#banner').hidden && document.querySelectorAll('.message').length === 4")
        with Server(port=first.port):
            page.wait("document.querySelector('#banner').hidden")
            equal(page.js("document.querySelectorAll('.message').length"), 4)
            page.click("footer button", "Regenerate")
            page.wait(f"{last('.branches .count')} && {last('.branches .count')}.textContent === '2 / 2'")
            equal(wait_for_answer(page), IDENTITY_ANSWER)


if __name__ == "__main__":
    skip_without_browser()
    with Server(model="mote-tiny-BF16.gguf", more=(VISION_MODEL,), sees=True) as one, Browser() as chromium:
        code = main(chromium, one)
    sys.exit(code)
