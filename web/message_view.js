// SPDX-License-Identifier: Apache-2.0
// message_view.js - one message on the page: text, thinking, calls, media, stats and buttons.
import {button, copy, el, number, seconds} from "./dom.js";
import {jsonView} from "./json_view.js";
import {GrowingText} from "./markdown.js";
import {statsView} from "./stats.js";
import {tokensView} from "./tokens_view.js";

const ROLES = {user: "You", assistant: "Model", tool: "Tool result"};
const STATES = {
  stopped: "Stopped.",
  cut: "The connection ended before the answer was complete.",
  length: "The answer reached its limit of tokens.",
};

function thinkingTitle(message) {
  if (message.thinkingSeconds === undefined) return "Thinking";
  const used = message.stats && message.stats.thinking ? `, ${number(message.stats.thinking.used)} tokens` : "";
  return `Thought for ${seconds(message.thinkingSeconds)}${used}`;
}

function callView(call) {
  let body;
  try {
    body = jsonView(JSON.parse(call.arguments || "{}"));
  } catch {
    body = el("pre", {tabindex: "0", text: call.arguments});
  }
  return el("div", {class: "call"}, el("p", {}, "Call of ", el("code", {text: call.name})), body);
}

export class MessageView {
  // `actions` has the functions edit, regenerate, showBranch, answerCalls, endThinking; `branches` is
  // {at, n} among the siblings; `last`: nothing follows the message.
  constructor(message, actions, branches, last) {
    this.message = message;
    this.actions = actions;
    this.body = el("div", {class: "text"});
    this.text = null;
    this.thinking = null;
    this.calls = el("div", {class: "calls"});
    this.foot = el("footer");
    this.root = el("article", {class: `message ${message.role}`, "data-id": message.id, "aria-label": ROLES[message.role]},
      el("header", {}, el("span", {class: "role", text: ROLES[message.role]}), this.branchButtons(branches)),
      this.media(), this.body, this.calls, this.foot);
    this.last = last;
    this.branches = branches;
    this.fill();
  }

  branchButtons({at, n}) {
    if (n < 2) return null;
    const go = (step) => () => this.actions.showBranch(this.message, step);
    return el("span", {class: "branches", role: "group", "aria-label": "Versions"},
      button("\u2039", go(-1), {"aria-label": "Previous version", disabled: at === 0}),
      el("span", {text: `${at + 1} / ${n}`}),
      button("\u203a", go(1), {"aria-label": "Next version", disabled: at === n - 1}));
  }

  media() {
    const items = this.actions.mediaOf(this.message);
    if (items.length === 0) return null;
    return el("ul", {class: "media"}, ...items.map((item) => el("li", {}, el("img", {src: item.url, alt: item.name}),
      item.kind === "video" ? el("span", {text: `${item.name}, ${item.frames.length} frames`}) : null)));
  }

  // Everything from the message, which is complete or will grow.
  fill() {
    const m = this.message;
    if (m.reasoning) this.openThinking().append(m.reasoning);
    if (m.role === "assistant") {
      if (m.text) this.openText().append(m.text);
      if (m.state !== "running") this.finish();
      return;
    }
    this.body.classList.add("given");
    this.body.setAttribute("dir", "auto");
    this.body.textContent = m.text;
    this.drawFoot();
  }

  openThinking() {
    if (this.thinking === null) {
      const box = el("div", {class: "thinking-text"});
      this.thinkingBox = el("details", {class: "thinking"}, el("summary", {text: thinkingTitle(this.message)}), box);
      this.thinking = new GrowingText(box);
      this.body.before(this.thinkingBox);
      if (this.message.state === "running") {
        this.thinkingEnd = button("Answer now", () => this.actions.endThinking(), {class: "end-thinking"});
        this.thinkingBox.after(this.thinkingEnd);
      }
    }
    return this.thinking;
  }

  openText() {
    if (this.text === null) this.text = new GrowingText(this.body);
    return this.text;
  }

  appendReasoning(text) {
    this.openThinking().append(text);
  }

  appendText(text) {
    if (this.thinkingEnd) this.closeThinking();
    this.openText().append(text);
  }

  closeThinking() {
    this.thinkingEnd.remove();
    this.thinkingEnd = null;
    this.thinkingBox.querySelector("summary").textContent = thinkingTitle(this.message);
  }

  drawCalls() {
    this.calls.replaceChildren(...(this.message.calls || []).map(callView));
  }

  // The message is complete.
  finish() {
    const m = this.message;
    if (this.thinkingEnd) this.closeThinking();
    if (this.thinking) {
      this.thinkingBox.querySelector("summary").textContent = thinkingTitle(m);
      this.thinking.finish();
    }
    if (this.text) this.text.finish();
    this.json = this.readJson();
    if (this.json !== undefined) this.body.replaceChildren(jsonView(this.json));
    this.drawCalls();
    if (this.last && m.calls && m.calls.length > 0 && m.state === "done") this.calls.append(this.resultForm());
    this.drawFoot();
  }

  readJson() {
    if (!this.message.json || this.message.state !== "done") return undefined;
    try {
      const value = JSON.parse(this.message.text);
      return typeof value === "object" && value !== null ? value : undefined;
    } catch {
      return undefined;
    }
  }

  resultForm() {
    const fields = this.message.calls.map((call) => {
      const input = el("textarea", {rows: "2", dir: "auto"});
      return {call, input, label: el("label", {class: "field"}, el("span", {text: `Result of ${call.name}`}), input)};
    });
    return el("div", {class: "results"}, ...fields.map((f) => f.label),
      button("Send results", () => this.actions.answerCalls(this.message, fields.map((f) => [f.call.id, f.input.value]))));
  }

  // Shows the body that `make` returns until the button is pressed again.
  toggle(label, other, make) {
    const control = button(label, () => {
      const shown = control.getAttribute("aria-pressed") === "true";
      for (const pressed of this.foot.querySelectorAll("[aria-pressed=true]")) pressed.setAttribute("aria-pressed", "false");
      control.setAttribute("aria-pressed", String(!shown));
      if (!shown) this.body.replaceChildren(make());
      else if (other) this.body.replaceChildren(other());
      else {
        this.text = new GrowingText(this.body, this.message.text);
        this.text.finish();
      }
    }, {"aria-pressed": "false"});
    return control;
  }

  drawFoot() {
    const m = this.message;
    const row = el("div", {class: "row"}, button("Copy", () => copy(m.text), {"aria-label": "Copy message"}));
    if (m.role === "user") row.append(button("Edit", () => this.actions.edit(this)));
    if (m.role === "assistant") row.append(button("Regenerate", () => this.actions.regenerate(m)));
    const table = this.json !== undefined ? () => jsonView(this.json) : null;
    if (table) row.append(this.toggle("Source", table, () => el("pre", {tabindex: "0", text: m.text})));
    if (m.tokens && m.tokens.length > 0) row.append(this.toggle("Tokens", table, () => tokensView(m.tokens)));
    const notes = [];
    if (STATES[m.state]) notes.push(el("p", {class: "note", text: STATES[m.state]}));
    if (m.error) notes.push(el("p", {class: "fault", role: "alert", text: m.error}));
    this.foot.replaceChildren(...notes, row, ...(m.stats ? [statsView(m.stats)] : []));
  }

  // A field in place of the text; `done(text)` is called with the new one.
  edit(done) {
    const input = el("textarea", {rows: "3", dir: "auto", "aria-label": "Edit message"});
    input.value = this.message.text;
    const cancel = () => {
      this.body.textContent = this.message.text;
      this.drawFoot();
    };
    const accept = () => done(input.value);
    input.addEventListener("keydown", (event) => {
      if (event.key === "Escape") cancel();
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        accept();
      }
    });
    this.body.replaceChildren(input);
    this.foot.replaceChildren(el("div", {class: "row"}, button("Send", accept, {class: "primary"}), button("Cancel", cancel)));
    input.focus();
  }
}
