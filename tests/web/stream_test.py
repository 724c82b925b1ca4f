# SPDX-License-Identifier: Apache-2.0
"""stream_test.py - the chat page with answers of a scripted server: hostile texts, slow, cut and stopped streams.

usage: stream_test.py [words...]     MOTE_HOSTILE: number of hostile outputs (default 60; the whole set has 500)
"""
import json
import os
import sys
import threading

from fake_server import END, FakeServer, chunk
from hostile_outputs import BROKEN, CHARACTERS, LARGE, LIMITS, texts
from page_rig import (Browser, Server, ask, case, equal, last, main, no_faults, open_page, send, skip_without_browser,
                      wait_for_answer, wait_until_drawn)

HOSTILE = int(os.environ.get("MOTE_HOSTILE", "60"))
LONGEST_TASK_MS = 200
RATE = 200  # tokens per second
ALLOWED = ("A BLOCKQUOTE BR BUTTON CODE DD DEL DETAILS DIV DL DT EM FOOTER H1 H2 H3 H4 H5 H6 HEADER HR LI OL P PRE S SPAN STRONG "
           "SUMMARY TABLE TBODY TD TH THEAD TR UL").split()
# What model output must never become: other elements, handlers, and links to anything but the web.
CHECK = """(() => {
  const faults = [];
  for (const e of document.querySelectorAll(".message.assistant, .message.assistant *")) {
    if (e.closest("footer svg.icon, header svg.icon")) continue; // of the page itself
    if (e.tagName !== "ARTICLE" && !%s.includes(e.tagName)) faults.push(e.outerHTML.slice(0, 200));
    for (const a of e.attributes)
      if (/^on|^style$|^srcdoc$|^src$/i.test(a.name) || (a.name === "href" && !/^(https?:|mailto:)/i.test(a.value))
          || (a.name === "id")) faults.push(a.name + "=" + a.value.slice(0, 100));
  }
  return faults;
})()""" % json.dumps(ALLOWED)


# What one slice may cost (web/slices.js), and the longest run of marks on a letter (web/bounds.js).
MOST_UNITS = 8000
MOST_MARKS = 16
# Some of the texts that are made to block the page. All of them are in MOTE_HOSTILE=500.
COSTLY = [CHARACTERS[5], LARGE[2], LARGE[10][:8000], LARGE[15][:20000], *(LIMITS[i] for i in (0, 1, 8, 13, 20, 23, 30, 31, 32, 39))]


def pieces(text, size=16):
    return [text[i:i + size] for i in range(0, len(text), size)]


def stream(text, rate=None):
    """An answer in pieces: large ones at once, or small ones at a rate."""
    if rate:
        return [part for piece in pieces(text, 4) for part in (chunk({"content": piece}), 1 / rate)] + [END]
    return [chunk({"content": piece}) for piece in pieces(text, max(16, len(text) // 200))] + [END]


def watch(page):
    page.js("window.__hits = 0; window.hit = () => { window.__hits++; }; window.__long.length = 0; 1")


def harmless(page, what):
    equal((page.js("window.__hits"), what), (0, what))
    equal((page.js("window.__violations"), what), ([], what))
    equal((page.js(CHECK), what), ([], what))


@case
def hostile_outputs_stay_text(browser, fake):
    requests = []
    with open_page(browser, fake, {"alternatives": False}) as page:
        watch(page)
        for text in texts(HOSTILE):
            text = text.encode("utf-8", "replace").decode("utf-8")
            page.click("#new-chat")
            fake.answers.append(stream(text) if len(text) > 2000 else [chunk({"reasoning_content": text}), *stream(text)])
            send(page, "x")
            wait_until_drawn(page)
            page.js("document.querySelectorAll('.thinking').forEach((d) => d.open = true)")
            page.wait(f"{last('.message.assistant')}.querySelector('.text').childNodes.length > 0 || {json.dumps(text.strip() == '')}")
            harmless(page, text[:80])
        longest = page.js("Math.max(0, ...window.__long)")
        requests = page.requests()
        no_faults(page)
    foreign = [url for url in requests if not url.startswith((fake.url + "/", "data:", "blob:", "about:"))]
    equal(foreign, [])
    print(f"     {HOSTILE} outputs, longest task {longest:.0f} ms")
    assert os.environ.get("MOTE_WEB_TIMES") is None or longest <= LONGEST_TASK_MS, longest


@case
def work_is_bounded(browser, fake):
    """No slice parses or lays out more than its limit, whatever the text: counted by the page, so independent of time."""
    with open_page(browser, fake, {"alternatives": False}) as page:
        for text in COSTLY:
            page.click("#new-chat")
            fake.answers.append(stream(text))
            ask(page, "x")
            marks, groups = page.js(f"""(() => {{
              const box = {last('.message.assistant')}.querySelector('.text');
              const runs = box.textContent.match(/[\\p{{M}}\\p{{Cf}}]+/gu) || [];
              return [Math.max(0, ...runs.map((r) => [...r].length)), Math.max(0, ...[...box.children].map((g) => g.childElementCount))];
            }})()""")
            assert marks <= MOST_MARKS and groups <= 50, (text[:40], marks, groups)
            most, slices = page.js("import('/web/slices.js').then(({work}) => [work.most, work.slices])")
            assert slices > 0 and most <= MOST_UNITS, (text[:40], most)
        no_faults(page)


@case
def tables_and_code_keep_their_form(browser, fake):
    """A table or code that is divided is still one: every row has its cells, the code has every line."""
    code = "".join(f"let x{i} = {i}; // {'y' * (i % 50)}\n" for i in range(3000))
    table = "| a | b |\n|---|---|\n" + "".join(f"| {i} | x |\n" for i in range(1500))
    listed = "- one\n\n  ```js\n" + "  let a = 1;\n" * 1000 + "  ```\n\n- two\n"
    with open_page(browser, fake, {"alternatives": False}) as page:
        body = ".message.assistant:last-of-type .text "
        fake.answers.append(stream(f"Text\n```js\n{code}```\nEnd *one*."))
        ask(page, "x")
        equal(page.js(f"[...document.querySelectorAll('{body}.code code')].map((c) => c.textContent)"), [code])
        equal(page.js(f"document.querySelector('{body}em').textContent"), "one")
        page.click("#new-chat")
        fake.answers.append(stream(table + "\nEnd."))
        ask(page, "x")
        equal(page.js(f"[document.querySelectorAll('{body}td').length, document.querySelectorAll('{body}p').length]"), [3000, 1])
        page.click("#new-chat")
        fake.answers.append(stream(listed))
        ask(page, "x")
        page.wait(f"[...document.querySelectorAll('{body}code')].map((c) => c.textContent).join('').split('let a = 1;').length === 1001")
        page.wait(f"[...document.querySelectorAll('{body}li')].some((l) => l.textContent.trim() === 'two')")
        no_faults(page)


@case
def code_is_highlighted_in_slices(browser, fake):
    """Colours come from a worker, also while the code grows; they never change the text."""
    code = "".join(f"/* several\n lines {i} */ const x{i} = `a ${{f({i})}}` + 'é';\n" for i in range(150))
    gate = threading.Event()
    with open_page(browser, fake, {"alternatives": False}) as page:
        half = len(code) // 2
        fake.answers.append([chunk({"content": f"```js\n{code[:half]}"}), gate, *[chunk({"content": p}) for p in pieces(code[half:], 50)],
                             chunk({"content": "```\n"}), END])
        page.type("#input", "x")
        page.enter()
        page.wait("document.querySelectorAll('.code .hljs-keyword').length > 10")
        gate.set()
        wait_for_answer(page)
        page.wait("document.querySelectorAll('.code .hljs-keyword').length === 150 && document.querySelectorAll('.code .hljs-comment').length >= 150")
        equal(page.js("document.querySelector('.code code').textContent"), code)
        equal(page.js("document.querySelector('.code .part:nth-child(2) .hljs-keyword').textContent"), "const")
        no_faults(page)


@case
def calls_and_json_are_bounded(browser, fake):
    """Arguments of a call and answers in JSON that are huge or deep make a bounded number of nodes."""
    deep = '{"a":' * 3000 + "1" + "}" * 3000
    wide = json.dumps({f"k{i}": [{"x": j, "y": "z" * 3000} for j in range(50)] for i in range(100)})
    for name, text in (("deep", deep), ("wide", wide)):
        with open_page(browser, fake, {"alternatives": False, "schema": '{"type": "object"}'}) as page:
            parts = [{"index": 0, "function": {"arguments": p}} for p in pieces(text, 4000)]
            parts[0].update(id="c1", function={"name": "f", "arguments": parts[0]["function"]["arguments"]})
            fake.answers.append([chunk({"tool_calls": [p]}) for p in parts] + [chunk({"content": text}), END])
            ask(page, "x")
            nodes = page.js(f"{last('.message.assistant')}.querySelectorAll('*').length")
            equal((name, 20 < nodes < 12000, nodes), (name, True, nodes))
            assert page.js(f"{last('.message.assistant')}.textContent.length") < 100000
            no_faults(page)


@case
def thinking_is_timed_and_ended(browser, fake):
    gate = threading.Event()
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append([*[part for _ in range(8) for part in (chunk({"reasoning_content": "Well. "}), 0.06)], gate,
                             chunk({"content": "Done"}), END])
        page.type("#input", "x")
        page.enter()
        page.wait("document.querySelector('.thinking summary') && document.querySelector('.thinking summary').textContent.startsWith('Thinking for ')")
        page.click("button", "Answer now")
        while not fake.controls:
            browser.receive(0.02)
        equal(fake.controls.pop(), {"id": "chatcmpl-1", "action": "reasoning_end"})
        gate.set()
        equal(wait_for_answer(page), "Done")
        assert page.js("document.querySelector('.thinking summary').textContent").startswith("Thought for ")
        equal(page.js("document.querySelectorAll('.end-thinking').length"), 0)
        no_faults(page)


@case
def broken_utf8(browser, fake):
    with open_page(browser, fake, {"alternatives": False}) as page:
        watch(page)
        for raw in BROKEN:
            fake.answers.append([chunk({"content": "ab@cd"}).replace(b"@", raw), END])
            answer = ask(page, "x")
            assert answer.startswith("ab") and answer.endswith("cd") and "\ufffd" in answer, (raw, answer)
        harmless(page, "bytes")
        no_faults(page)


@case
def markdown_is_rendered(browser, fake):
    text = ("# Title\n\nSome **bold** and `code` and [a link](https://example.com/a).\n\n1. one\n\n2. two\n\n   more\n\n"
            "| a | b |\n|---|--:|\n| 1 | 2 |\n\n```python\ndef f():\n    return 1\n```\n\n"
            "See [the page][1].\n\n[1]: https://example.com/b\n\nEnd.")
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append(stream(text, 2000))
        ask(page, "x")
        body = ".message.assistant .text "
        page.wait(f"document.querySelector('{body}').innerText.includes('End.')")
        page.wait(f"document.querySelectorAll('{body}a').length === 2")  # the second one has its target in another block
        page.wait(f"document.querySelectorAll('{body}.hljs-keyword').length === 2")
        for selector, n in (("h1", 1), ("strong", 1), ("ol li", 2), ("td", 2), ("td.align-right", 1), ("pre .hljs-keyword", 2),
                            ("a[rel~=noopener][target=_blank]", 2)):
            equal((selector, page.js(f"document.querySelectorAll('{body + selector}').length")), (selector, n))
        no_faults(page)


@case
def growing_text_equals_the_whole(browser, fake):
    """Blocks that are rendered one by one give the same nodes as the text at once."""
    text = "\n\n".join(f"## Part {i}\n\nText {i} with *emphasis*.\n\n- a\n\n- b\n\n```c\nint x = {i};\n\nint y;\n```" for i in range(120))
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append(stream(text))
        ask(page, "x")
        page.wait("document.querySelectorAll('.message.assistant .text pre').length === 120")
        count = page.js("['h2', 'em', 'li', 'pre', 'ul'].map((t) => document.querySelectorAll('.message.assistant .text ' + t).length)")
        equal(count, [120, 120, 240, 120, 120])


@case
def long_blocks_are_divided(browser, fake):
    """A list of thousands of lines is shown as lists; a line of a million characters is cut."""
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append(stream("".join(f"{i}. item\n" for i in range(1, 3001)) + "\n" + "x" * 1000000 + "\n\nEnd."))
        ask(page, "x")
        body = ".message.assistant .text"
        page.wait(f"document.querySelectorAll('{body} li').length === 3000 && document.querySelector('{body}').innerText.includes('End.')")
        text = page.js(f"document.querySelector('{body}').innerText")
        assert "996,000 more characters" in text, text[-300:]
        equal(page.js(f"[...document.querySelectorAll('{body} ol')].pop().start") > 1000, True)


@case
def stop_ends_the_stream(browser, fake):
    with open_page(browser, fake, {"alternatives": False}) as page:
        for stop in ("click", "Escape"):
            gate, left = threading.Event(), fake.left
            fake.answers.append([chunk({"content": "The beginning "}), gate, *[chunk({"content": "x"})] * 2000, 0.2,
                                 *[chunk({"content": "x"})] * 20000])
            page.type("#input", "x")
            page.enter()
            page.wait(f"{last('.message.assistant')} && {last('.message.assistant')}.innerText.includes('The beginning')")
            if stop == "click":
                page.click("#stop")
            else:
                page.js("document.querySelector('#input').focus()")
                page.key("Escape", 27)
            answer = wait_for_answer(page)
            gate.set()
            equal(answer, "The beginning")
            assert "Stopped." in page.js(f"{last('.message.assistant')}.innerText")
            while fake.left == left:
                browser.receive(0.02)
        no_faults(page)


def stored(page):
    """Numbers of stored conversations and messages, after everything that the page is storing."""
    return page.js("""(async () => {
      const open = indexedDB.open("mote");
      await new Promise((resolve) => (open.onsuccess = resolve));
      const transaction = open.result.transaction(["conversations", "messages"], "readwrite");
      const counts = ["conversations", "messages"].map((name) => transaction.objectStore(name).count());
      await new Promise((resolve) => (transaction.oncomplete = resolve));
      open.result.close();
      return counts.map((request) => request.result);
    })()""")


def delete_during_answer(browser, fake, page, hide):
    """Deletes the only conversation while its answer arrives; `hide`: while another one is shown."""
    gate, left = threading.Event(), fake.left
    fake.answers.append([chunk({"content": "The beginning "}), gate, *[chunk({"content": "x"})] * 2000, 0.2,
                         *[chunk({"content": "x"})] * 20000])
    page.type("#input", "x")
    page.enter()
    page.wait(f"{last('.message.assistant')} && {last('.message.assistant')}.innerText.includes('The beginning')")
    if hide:
        page.click("#new-chat")
    page.click("#conversations button", "Delete")
    page.click("#conversations button", "Really?")
    page.wait("document.querySelectorAll('#conversations li').length === 0")
    gate.set()
    page.wait("document.querySelector('#stop').hidden")
    equal((hide, stored(page)), (hide, [0, 0]))
    while fake.left == left:
        browser.receive(0.02)


@case
def deleted_during_answer_stays_deleted(browser, fake):
    with open_page(browser, fake, {"alternatives": False}) as page:
        for hide in (False, True):
            delete_during_answer(browser, fake, page, hide)
            equal((hide, stored(page)), (hide, [0, 0]))
            equal(page.js("document.querySelectorAll('.message').length"), 0)
        # the page is ready for the next answer
        fake.answers.append([chunk({"content": "Fine"}), END])
        equal(ask(page, "y"), "Fine")
        equal(stored(page), [1, 2])
        no_faults(page)


@case
def progress_is_shown(browser, fake):
    gates = [threading.Event() for _ in range(3)]
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append([b": queue 3\n\n", gates[0], b": prefill 512/3070 4.1\n\n", gates[1], chunk({"content": "Done"}),
                             gates[2], END])
        page.type("#input", "x")
        page.enter()
        for text, gate in (("queue position 3", gates[0]), ("prefill 512 of 3,070 tokens, 4.1 s left", gates[1])):
            page.wait(f"document.querySelector('#live').textContent === {json.dumps(text)}")
            gate.set()
        page.wait(f"{last('.message.assistant')}.innerText.includes('Done')")
        # a new chat meanwhile, and back
        page.click("#new-chat")
        equal(page.js("document.querySelectorAll('.message').length"), 0)
        page.click("#conversations .title")
        page.wait("document.querySelectorAll('.message').length === 2 && !document.querySelector('#stop').hidden")
        gates[2].set()
        equal(wait_for_answer(page), "Done")


@case
def settings_are_in_the_request(browser, fake):
    chosen = {"thinking": "low", "system": "Be short.", "temperature": 0.5, "top_k": 7, "seed": 3,
              "tools": '[{"type": "function"}]', "schema": '{"type": "object"}'}
    with open_page(browser, fake, chosen) as page:
        page.click("#open-settings")
        page.choose("#set-preset", "coding")
        page.click("#settings button", "Save")
        page.wait("!document.querySelector('#settings').open")
        fake.answers.append([chunk({"content": "{}"}), END])
        ask(page, "x")
        body = fake.requests[-1]
        equal(body["messages"], [{"role": "system", "content": "Be short."}, {"role": "user", "content": "x"}])
        equal([body[name] for name in ("preset", "reasoning_effort", "temperature", "top_k", "seed", "tools", "stream")],
              ["coding", "low", 0.5, 7, 3, [{"type": "function"}], True])
        equal(body["response_format"]["json_schema"]["schema"], {"type": "object"})
        equal((body["logprobs"], body["top_logprobs"]), (True, 5))


@case
def cut_and_failed_streams_keep_the_text(browser, fake):
    with open_page(browser, fake, {"alternatives": False}) as page:
        fake.answers.append([chunk({"content": "Half of"})])
        equal(ask(page, "x"), "Half of")
        assert "connection ended" in page.js(f"{last('.message.assistant')}.innerText")
        page.wait("document.querySelector('#banner').hidden")
        fake.answers.append([chunk({"content": "Some"}), b'data: {"error":{"message":"out of luck","code":"x"}}\n\n'])
        ask(page, "x")
        assert "out of luck" in page.js(f"{last('.message.assistant')}.innerText")
        fake.answers.append([b"data: {not JSON\n\n"])
        ask(page, "x")
        assert "not JSON" in page.js(f"{last('.message.assistant')}.innerText")
        # earlier texts are sent back
        fake.answers.append([chunk({"content": "Fine"}), END])
        ask(page, "y")
        equal([m["content"] for m in fake.requests[-1]["messages"]][:3], ["x", "Half of", "x"])
        no_faults(page)


if __name__ == "__main__":
    skip_without_browser()
    with Server() as real, FakeServer(real) as one, Browser() as chromium:
        code = main(chromium, one)
    sys.exit(code)
