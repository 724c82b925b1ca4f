// SPDX-License-Identifier: Apache-2.0
// sidebar.js - the list of conversations: search, open, delete, export, import.
import {button, byId, download, el} from "./dom.js";
import {fromFile, toJson, toMarkdown} from "./exchange_file.js";
import {iconButton} from "./icons.js";
import * as store from "./store.js";

export class Sidebar {
  constructor(chat) {
    this.chat = chat;
    this.list = byId("conversations");
    this.confirming = null; // id of the conversation with a button that asks "Really?"
    byId("new-chat").addEventListener("click", () => this.newChat());
    byId("search").addEventListener("input", () => this.draw());
    byId("export-json").addEventListener("click", () => this.exportJson());
    byId("export-markdown").addEventListener("click", () => this.exportMarkdown());
    byId("import").addEventListener("click", () => byId("import-file").click());
    byId("import-file").addEventListener("change", (event) => this.importFile(event.target));
    byId("menu").addEventListener("click", () => this.toggle());
  }

  toggle(open = !document.body.classList.contains("menu-open")) {
    document.body.classList.toggle("menu-open", open);
    byId("menu").setAttribute("aria-expanded", String(open));
  }

  newChat() {
    this.chat.clear();
    this.toggle(false);
    this.draw();
    byId("input").focus();
  }

  async draw() {
    const text = byId("search").value.trim();
    const all = await store.conversations();
    const found = text === "" ? null : await store.search(text);
    const shown = found === null ? all
      : all.filter((c) => found.has(c.id) || c.title.toLowerCase().includes(text.toLowerCase()));
    if (text !== byId("search").value.trim()) return;
    this.list.replaceChildren(...shown.map((c) => this.row(c)));
    byId("no-conversations").hidden = shown.length > 0;
    byId("no-conversations").textContent = text === "" ? "No conversations yet." : "Nothing found.";
  }

  row(conversation) {
    const current = conversation.id === this.chat.tree.conversation.id;
    const open = button(conversation.title, () => this.open(conversation),
      {class: "title", dir: "auto", "aria-current": current ? "true" : false});
    const remove = this.confirming === conversation.id
      ? button("Really?", () => this.remove(conversation), {"aria-label": `Really delete ${conversation.title}`, class: "really"})
      : iconButton("trash", "Delete", () => this.remove(conversation), {"aria-label": `Delete ${conversation.title}`});
    return el("li", {}, open, remove);
  }

  async open(conversation) {
    await this.chat.open(conversation);
    this.toggle(false);
    this.draw();
  }

  // The first click changes the button, for four seconds, also if the list is drawn again. The second one deletes.
  async remove(conversation) {
    if (this.confirming !== conversation.id) {
      this.confirming = conversation.id;
      setTimeout(() => this.endConfirming(conversation.id), 4000);
      await this.draw();
      const really = this.list.querySelector(".really");
      if (really) really.focus();
      return;
    }
    this.confirming = null;
    this.chat.discard(conversation.id);
    await store.removeConversation(conversation.id);
    this.draw();
  }

  endConfirming(id) {
    if (this.confirming !== id) return;
    this.confirming = null;
    this.draw();
  }

  async exportJson() {
    const parts = [];
    for (const conversation of await store.conversations())
      parts.push({conversation, messages: await store.messagesOf(conversation.id), media: await store.mediaOf(conversation.id)});
    download("mote-conversations.json", "application/json", toJson(parts));
  }

  exportMarkdown() {
    if (this.chat.isEmpty) this.chat.say("This conversation is empty.");
    else download("mote-conversation.md", "text/markdown", toMarkdown(this.chat.tree));
  }

  async importFile(input) {
    const file = input.files[0];
    try {
      const parts = fromFile(await file.text());
      await store.putAll({
        conversations: parts.map((p) => p.conversation), messages: parts.flatMap((p) => p.messages), media: parts.flatMap((p) => p.media),
      });
      this.chat.say(parts.length === 1 ? "1 conversation imported." : `${parts.length} conversations imported.`);
    } catch (error) {
      this.chat.say(`${file.name} could not be imported: ${error.message}`);
    }
    input.value = "";
    this.draw();
  }
}
