// SPDX-License-Identifier: Apache-2.0
// exchange_file.js - conversations as files: JSON with everything, Markdown with the shown branch.
import {newConversation, newId, newMessage, titleOf, Tree} from "./conversation.js";
import {checkedStats} from "./stats.js";
import {checkedTokens} from "./tokens_view.js";

const FORMAT = "mote-conversations";
const ROLES = ["user", "assistant", "tool"];
const STATES = ["done", "running", "stopped", "cut", "length", "error"];

// `parts` is a list of {conversation, messages, media}.
export function toJson(parts) {
  return JSON.stringify({format: FORMAT, version: 1, conversations: parts}, null, 1);
}

function isText(value) {
  return typeof value === "string";
}

function imageUrl(value) {
  return isText(value) && value.startsWith("data:image/");
}

function isObject(value) {
  return typeof value === "object" && value !== null;
}

function isMessage(m) {
  return isObject(m) && isText(m.id) && ROLES.includes(m.role) && isText(m.text) && Number.isFinite(m.created);
}

// true: the parents of a message lead back to it. Each message is visited once.
function hasCycle(messages) {
  const parents = new Map(messages.map((m) => [m.id, m.parent]));
  const visited = new Set();
  for (const {id} of messages) {
    const way = new Set();
    for (let at = id; parents.has(at) && !visited.has(at); at = parents.get(at)) {
      if (way.has(at)) return true;
      way.add(at);
    }
    for (const at of way) visited.add(at);
  }
  return false;
}

// A parent that the file does not have makes a message a first one.
function checkMessages(messages) {
  const ids = new Set(messages.map((m) => m && m.id));
  if (!messages.every(isMessage) || ids.size < messages.length || hasCycle(messages)) throw new Error("a message is damaged");
}

// Only the known members, with new ids: an imported file never replaces a conversation.
function checkedMessage(m, ids, conversation) {
  const out = {id: ids.messages.get(m.id), conversation, parent: ids.messages.get(m.parent) || null, role: m.role, text: m.text,
    created: m.created, state: STATES.includes(m.state) ? m.state : "done"};
  out.media = (Array.isArray(m.media) ? m.media : []).map((id) => ids.media.get(id)).filter(Boolean);
  for (const name of ["reasoning", "call", "model", "error"]) if (isText(m[name])) out[name] = m[name];
  if (Number.isFinite(m.thinkingSeconds)) out.thinkingSeconds = m.thinkingSeconds;
  if (typeof m.json === "boolean") out.json = m.json;
  if (Array.isArray(m.calls))
    out.calls = m.calls.filter(isObject).map((c) => ({id: String(c.id), name: String(c.name), arguments: String(c.arguments)}));
  const known = {stats: checkedStats(m.stats), tokens: checkedTokens(m.tokens)};
  for (const [name, value] of Object.entries(known)) if (value !== undefined) out[name] = value;
  return out;
}

function checkedMedia(item, ids, conversation) {
  const frames = (item && item.frames) || [];
  if (!isObject(item) || !imageUrl(item.url) || !Array.isArray(frames) || !frames.every(imageUrl)) throw new Error("an attachment is damaged");
  const out = {id: ids.media.get(item.id), conversation, kind: item.kind === "video" ? "video" : "image", name: String(item.name), url: item.url};
  return out.kind === "video" ? {...out, frames, fps: Number(item.fps) || 1} : out;
}

// With its times: the list of conversations is ordered by them.
function checkedConversation({title, created, updated}) {
  const own = newConversation();
  if (isText(title)) own.title = titleOf(title);
  if (Number.isFinite(created)) own.created = created;
  if (Number.isFinite(updated)) own.updated = updated;
  return own;
}

const newIds = (records) => new Map(records.map((record) => [record && record.id, newId()]));

function checkedPart(part) {
  const {conversation, messages, media} = part || {};
  if (!isObject(conversation) || !Array.isArray(messages) || !Array.isArray(media)) throw new Error("a conversation is damaged");
  checkMessages(messages);
  const ids = {messages: newIds(messages), media: newIds(media)};
  const last = messages.length > 0 ? ids.messages.get(messages[messages.length - 1].id) : null;
  const own = checkedConversation(conversation);
  return {
    conversation: {...own, leaf: ids.messages.get(conversation.leaf) || last},
    messages: messages.map((m) => checkedMessage(m, ids, own.id)),
    media: media.map((item) => checkedMedia(item, ids, own.id)),
  };
}

function fromJson(text) {
  const file = JSON.parse(text);
  if (file.format !== FORMAT || !Array.isArray(file.conversations)) throw new Error("this is not an export of mote");
  return file.conversations.map(checkedPart);
}

const HEADINGS = {user: "User", assistant: "Assistant", tool: "Tool"};

// A line before each message. A line of a text that begins like it gets a backslash, which Markdown does not show.
const MARK = "<!-- message -->";
const escaped = (text) => text.replace(/^\\*<!-- message -->/gm, "\\$&");
const unescaped = (text) => text.replace(/^\\(\\*<!-- message -->)/gm, "$1");

// The shown branch, one heading per message. Thinking and attachments are left out.
export function toMarkdown(tree) {
  const parts = tree.path().map((m) => `${MARK}\n## ${HEADINGS[m.role]}\n\n${escaped(m.text)}\n`);
  return `# ${tree.conversation.title}\n\n${parts.join("\n")}`;
}

function withoutLastLines(text) {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end--;
  return text.slice(0, end);
}

function fromMarkdown(text) {
  const conversation = newConversation();
  const tree = new Tree(conversation, []);
  const [head, ...parts] = text.split(/^<!-- message -->\n/m);
  if (parts.length === 0) throw new Error("this file has no messages");
  for (const part of parts) {
    const heading = /^## (User|Assistant|Tool)\n\n/.exec(part);
    if (!heading) throw new Error("a message has no heading");
    const role = Object.keys(HEADINGS).find((name) => HEADINGS[name] === heading[1]);
    tree.add(newMessage(conversation, conversation.leaf, role, {text: unescaped(withoutLastLines(part.slice(heading[0].length)))}));
  }
  const title = /^# (.*)/.exec(head);
  conversation.title = titleOf(title ? title[1] : parts[0]);
  return [{conversation, messages: [...tree.messages.values()], media: []}];
}

// Throws an Error with the reason.
export function fromFile(text) {
  return text.trimStart().startsWith("{") ? fromJson(text) : fromMarkdown(text);
}
