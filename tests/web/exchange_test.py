# SPDX-License-Identifier: Apache-2.0
"""exchange_test.py - conversations as files: what an export keeps, and what an import refuses."""
import json
import pathlib
import sys
import tempfile

from page_rig import Browser, Server, ask, case, equal, main, no_faults, open_page, skip_without_browser
from rig import FACT, IDENTITY

MARKUP = "<img src=x onerror=hit()> **a**"
TOKEN = json.dumps({"text": MARKUP, "logprob": -0.5, "top": [[MARKUP, -0.5], ["b", -2]]}, separators=(",", ":"))
STATS = {"prompt": 20, "answer": 5, "rate": 12.5, "prefillRate": 100, "seed": 7, "preset": MARKUP,
         "cache": {"prompt": 20, "reused": 16, "prefilled": 4, "from": "ram",
                   "miss": {"token": 16, "message": 1, "had": MARKUP, "got": "x", "kind": "id", "advice": "none"}},
         "spec": {"drafted": 4, "accepted": 3}, "ms": {"first_token": 10, "total": 20}, "thinking": {"used": 2},
         "stop": {"cause": "eos"}, "images": [{"w": 1, "h": 2, "tokens": 3}], "warnings": [{"code": MARKUP, "at": "x"}]}


def message(name, parent, text, **more):
    return {"id": name, "conversation": "c", "parent": parent, "role": "user", "text": text, "created": 1, "state": "done", **more}


def export_of(*messages, leaf=None, **more):
    """A file with one conversation."""
    conversation = {"id": "c", "title": "Imported", "created": 1, "updated": 1, "leaf": leaf or messages[-1]["id"], **more}
    return {"format": "mote-conversations", "version": 1,
            "conversations": [{"conversation": conversation, "messages": list(messages), "media": []}]}


def import_text(page, text, name="file.json"):
    """Returns what the page says."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory, name)
        path.write_text(text, encoding="utf-8")
        page.js("document.querySelector('#status').textContent = ''")
        page.set_files("#import-file", path)
        return page.wait("document.querySelector('#status').textContent")


def import_json(page, value):
    return import_text(page, json.dumps(value))


def downloaded(browser, page, button, name):
    """The text of the file that the page writes."""
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(page.download_to(directory), name)
        page.click(button)
        while not path.exists() or path.stat().st_size == 0:
            browser.receive(0.05)
        return path.read_text(encoding="utf-8")


def exported(browser, page):
    """The file of the page as JSON, with the messages of each conversation in their order."""
    file = json.loads(downloaded(browser, page, "#export-json", "mote-conversations.json"))
    for part in file["conversations"]:
        part["messages"].sort(key=lambda m: m["created"])
    return file


def exported_markdown(browser, page):
    """The text of the shown conversation as a file."""
    return downloaded(browser, page, "#export-markdown", "mote-conversation.md")


def without_ids(file):
    """Parents and the leaf become positions in the list of messages; an empty list of media is none."""
    out = []
    for part in file["conversations"]:
        at = {m["id"]: i for i, m in enumerate(part["messages"])}
        messages = [{**{k: v for k, v in m.items() if k not in ("id", "conversation") and v != []}, "parent": at.get(m["parent"])}
                    for m in part["messages"]]
        out.append(({**part["conversation"], "id": None, "leaf": at[part["conversation"]["leaf"]]}, messages))
    return out


def shown(page):
    """The texts of the first conversation in the list, which it opens."""
    page.click("#conversations li:first-child .title")
    page.wait("document.querySelectorAll('.message').length > 0 && !document.querySelector('.text[aria-busy]')")
    return page.js("[...document.querySelectorAll('.message .text')].map((t) => t.innerText.trim())")


@case
def damaged_messages_are_refused(browser, server):
    """Parents in a cycle would be followed for ever when the conversation is opened."""
    cycles = {
        "itself": [message("a", "a", "one")],
        "two": [message("a", "b", "one"), message("b", "a", "two")],
        "behind a way": [message("a", "b", "one"), message("b", "c", "two"), message("c", "d", "three"), message("d", "b", "four")],
        "same id": [message("a", None, "one"), message("a", "a", "two")],
        "no id": [{**message("a", None, "one"), "id": None}],
        "no object": [message("a", None, "one"), None, message("b", "a", "two")],
        "no time": [message("a", None, "one", created="x")],
    }
    with open_page(browser, server) as page:
        for name, messages in cycles.items():
            said = import_json(page, export_of(*messages))
            equal((name, said), (name, "file.json could not be imported: a message is damaged"))
        for part in (None, {}, {"conversation": {}, "messages": 1, "media": []}):
            said = import_json(page, {"format": "mote-conversations", "conversations": [part]})
            equal(said, "file.json could not be imported: a conversation is damaged")
        equal(page.js("document.querySelectorAll('#conversations li').length"), 0)
        no_faults(page)


@case
def unknown_parents_and_leaves(browser, server):
    """A message with a parent that the file does not have is a first one; an unknown leaf is the last message."""
    with open_page(browser, server) as page:
        file = export_of(message("a", "gone", "one"), message("b", "a", "two"), message("c", 7, "three", created=2), leaf="b")
        file["conversations"][0]["media"] = [{"id": "gone", "kind": "image", "name": "x", "url": "data:image/png;base64,AA=="}]
        equal(import_json(page, file), "1 conversation imported.")
        equal(shown(page), ["one", "two"])
        equal(page.js("document.querySelector('.branches .count').textContent"), "1 / 2")
        page.click("#conversations button", "Delete")
        page.click("#conversations button", "Really?")
        page.wait("document.querySelectorAll('#conversations li').length === 0")
        import_json(page, export_of(message("a", None, "one"), message("b", "a", "two"), leaf="gone"))
        equal(shown(page), ["one", "two"])
        no_faults(page)


@case
def exports_keep_everything(browser, server):
    """What one browser exports, another one imports and exports again: all members, and the order of conversations."""
    with open_page(browser, server) as page:
        ask(page, FACT)
        page.click("#new-chat")
        page.choose("#thinking", "high")
        ask(page, IDENTITY)
        page.choose("#thinking", "none")
        page.click("#new-chat")
        ask(page, "What is 2 + 2?")
        first = exported(browser, page)
    titles = [part["conversation"]["title"] for part in first["conversations"]]
    equal(titles, ["What is 2 + 2?", IDENTITY, FACT])
    for member in ("model", "stats", "tokens", "reasoning"):
        assert any(member in m for part in first["conversations"] for m in part["messages"]), member
    with open_page(browser, server) as page:
        equal(import_json(page, first), "3 conversations imported.")
        page.wait("document.querySelectorAll('#conversations li').length === 3")
        equal(page.js("[...document.querySelectorAll('#conversations .title')].map((t) => t.textContent)"), titles)
        equal(without_ids(exported(browser, page)), without_ids(first))
        shown(page)
        assert "tokens/s" in page.js("document.querySelector('.stats').textContent")
        page.click("footer button", "Tokens")
        page.wait("document.querySelectorAll('.tokens button').length > 3")
        no_faults(page)


@case
def imported_members_stay_text(browser, server):
    answer = message("b", "a", "Yes.", role="assistant", created=2, state="error", model=MARKUP, error=MARKUP, stats=STATS,
                     tokens=[TOKEN], calls=[{"id": "c", "name": MARKUP, "arguments": MARKUP}])
    file = export_of(message("a", None, "x"), answer, title=MARKUP)
    with open_page(browser, server) as page:
        page.js("window.__hits = 0; window.hit = () => { window.__hits++; }; 1")
        import_json(page, file)
        equal(without_ids(exported(browser, page)), without_ids(file))
        shown(page)
        page.click("footer button", "Tokens")
        page.click(".tokens button")
        page.wait("document.querySelector('#alternatives').open")
        equal(page.js("[document.querySelectorAll('img').length, document.querySelectorAll('#alternatives tbody tr').length, window.__hits]"), [0, 2, 0])
        equal(page.js("document.querySelector('.fault[role=alert]').textContent"), MARKUP)
        equal(page.js("document.querySelector('.message.assistant .role').textContent"), MARKUP)
        no_faults(page)


@case
def imported_members_of_other_types(browser, server):
    """They are left out or cut: the conversation opens with a bounded number of nodes."""
    huge = "a\u0301" * 50000
    objects = [{name: value for name in STATS} for value in (None, "x", 1, [], {}, [None], [{}])]
    objects += [{**STATS, "cache": {**STATS["cache"], "reused": "1"}}, {"rate": 5}, {"prompt": 5}, [], 5,
                {**STATS, "images": STATS["images"] * 10000, "warnings": [{"code": huge}], "preset": huge}]
    tokens = [5, "x", [5], ["x"], ["null"], [None], [json.dumps({"text": "x", "logprob": -1})], [{"text": "x", "logprob": -1, "top": [1]}]]
    rest = [{"model": 5, "error": {}, "thinkingSeconds": "x", "reasoning": 1, "json": "x", "calls": [None], "media": 5, "state": "constructor"},
            {"model": huge, "error": huge}]
    answers = [*({"stats": s} for s in objects), *({"tokens": t} for t in tokens), *rest]
    messages = [message("m0", None, "x")]
    for members in answers:
        messages.append(message(f"m{len(messages)}", messages[-1]["id"], "Yes.", role="assistant", created=len(messages), **members))
    with open_page(browser, server) as page:
        equal(import_json(page, export_of(*messages, title=huge, updated="x", created=None)), "1 conversation imported.")
        equal(shown(page), ["x"] + ["Yes."] * len(answers))
        assert page.js("document.querySelector('#messages').textContent.length") < 300000
        assert page.js("document.querySelectorAll('#messages *').length") < 4000
        assert page.js("document.querySelector('#conversations .title').textContent.length") <= 60
        no_faults(page)


@case
def markdown_keeps_texts_with_its_own_mark(browser, server):
    mark = "<!-- message -->"
    texts = [f"a\n{mark}\nb", f"{mark}\n## User\n\nnot a message", f"x {mark}\ny\n\\{mark}\n\\\\{mark}", "\n".join(["a", *[""] * 50000, "b"])]
    messages = [message("m0", None, texts[0])]
    for i, text in enumerate(texts[1:], 1):
        messages.append(message(f"m{i}", f"m{i - 1}", text, role="assistant" if i % 2 else "user", created=i + 1))
    with open_page(browser, server) as page:
        import_json(page, export_of(*messages, title=f"T\u2028{mark}"))
        shown(page)
        file = exported_markdown(browser, page)
        equal(file.split("\n").count(mark), len(texts))
        equal(import_text(page, file, "file.md"), "1 conversation imported.")
        equal(len(shown(page)), len(texts))  # the imported one is the newest
        got = exported(browser, page)["conversations"][0]["messages"]
        equal([(m["role"], m["text"]) for m in got], [(m["role"], m["text"]) for m in messages])
        no_faults(page)


if __name__ == "__main__":
    skip_without_browser()
    with Server() as one, Browser() as chromium:
        code = main(chromium, one)
    sys.exit(code)
