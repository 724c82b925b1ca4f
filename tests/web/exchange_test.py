# SPDX-License-Identifier: Apache-2.0
"""exchange_test.py - conversations as files: what an export keeps, and what an import refuses."""
import json
import pathlib
import sys
import tempfile

from page_rig import Browser, Server, case, equal, main, no_faults, open_page, skip_without_browser


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
        equal(import_json(page, file), "1 conversations imported.")
        equal(shown(page), ["one", "two"])
        equal(page.js("document.querySelector('.branches .count').textContent"), "1 / 2")
        page.click("#conversations button", "Delete")
        page.click("#conversations button", "Really?")
        page.wait("document.querySelectorAll('#conversations li').length === 0")
        import_json(page, export_of(message("a", None, "one"), message("b", "a", "two"), leaf="gone"))
        equal(shown(page), ["one", "two"])
        no_faults(page)


if __name__ == "__main__":
    skip_without_browser()
    with Server() as one, Browser() as chromium:
        code = main(chromium, one)
    sys.exit(code)
