// SPDX-License-Identifier: Apache-2.0
// conversation.js - a conversation as a tree of messages.
//
// Each message names its parent. Editing or regenerating adds a sibling, so nothing is lost; `leaf` of
// the conversation selects the branch that is shown. Messages are plain records (docs/web.md).

export function newId() {
  return Array.from(crypto.getRandomValues(new Uint8Array(12)), (b) => b.toString(16).padStart(2, "0")).join("");
}

let lastTime = 0;

// Increases with every call, so that siblings have an order.
function now() {
  lastTime = Math.max(Date.now(), lastTime + 1);
  return lastTime;
}

export function newConversation() {
  const time = now();
  return {id: newId(), title: "New chat", created: time, updated: time, leaf: null};
}

export function newMessage(conversation, parent, role, fields = {}) {
  return {id: newId(), conversation: conversation.id, parent, role, text: "", created: now(), state: "done", ...fields};
}

export class Tree {
  constructor(conversation, messages) {
    this.conversation = conversation;
    this.messages = new Map(messages.map((m) => [m.id, m]));
    this.children = new Map();
    for (const m of [...messages].sort((a, b) => a.created - b.created)) this.link(m);
  }

  // After its siblings.
  link(message) {
    const list = this.children.get(message.parent) || [];
    list.push(message);
    this.children.set(message.parent, list);
  }

  // Adds a message and shows its branch.
  add(message) {
    this.messages.set(message.id, message);
    this.link(message);
    this.conversation.leaf = message.id;
    this.conversation.updated = now();
  }

  // Messages from the first one to `id`; the shown branch unless given.
  path(id = this.conversation.leaf) {
    const list = [];
    for (let m = this.messages.get(id); m; m = this.messages.get(m.parent)) list.push(m);
    return list.reverse();
  }

  siblings(message) {
    return this.children.get(message.parent);
  }

  // Shows the branch of a message, down to the newest answer in it.
  show(message) {
    let m = message;
    for (let list = this.children.get(m.id); list; list = this.children.get(m.id)) m = list[list.length - 1];
    this.conversation.leaf = m.id;
  }
}

// The beginning of the first message of the user.
export function titleOf(text) {
  const line = text.trim().split(/[\n\r\u2028\u2029]/)[0].trim();
  return line.length > 60 ? `${line.slice(0, 59)}\u2026` : line || "New chat";
}
