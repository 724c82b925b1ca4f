// SPDX-License-Identifier: Apache-2.0
// message_view.js - one message on the page: text, thinking, calls, media, stats and buttons.
import {bounded, textBox} from "./bounds.js";
import {button, copy, el, number, seconds} from "./dom.js";
import {GrowingText} from "./growing_text.js";
import {iconButton} from "./icons.js";
import {jsonView} from "./json_view.js";
import {laterGrowing} from "./slices.js";
import {statsView} from "./stats.js";
import {tokensView} from "./tokens_view.js";

const ROLES = {user: "You", assistant: "Model", tool: "Tool result"};
const STATES = {
  stopped: "Stopped.",
  cut: "The connection ended before the answer was complete.",
  length: "The answer reached its limit of tokens.",
};
const LONGEST_GIVEN = 4000;
const LONGEST_SOURCE = 4000;
const LONGEST_ARGUMENTS = 2000;
const LONGEST_ERROR = 2000;
const LONGEST_MODEL = 200;

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
    body = textBox(call.arguments, LONGEST_ARGUMENTS, {class: "plain mono"});
  }
  return el("div", {class: "call"}, el("p", {}, "Call of ", el("code", {text: call.name.slice(0, 200)})), body);
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
    this.callsPlanned = false;
    this.foot = el("footer");
    this.root = el("article", {class: `message ${message.role}`, "data-id": message.id, "aria-label": ROLES[message.role]},
      el("header", {}, el("span", {class: message.role === "user" ? "role sr" : "role", text: this.roleText()}), this.branchButtons(branches)),
      this.media(), this.body, this.calls, this.foot);
    this.last = last;
    this.branches = branches;
    this.fill();
  }

  roleText() {
    const {role, model} = this.message;
    return role === "assistant" && model ? bounded(model.slice(0, LONGEST_MODEL)) : ROLES[role];
  }

  branchButtons({at, n}) {
    if (n < 2) return null;
    const go = (step) => () => this.actions.showBranch(this.message, step);
    return el("span", {class: "branches", role: "group", "aria-label": "Versions"},
      iconButton("left", "Previous version", go(-1), {"aria-label": "Previous version", disabled: at === 0}),
      el("span", {class: "count", text: `${at + 1} / ${n}`}),
      iconButton("right", "Next version", go(1), {"aria-label": "Next version", disabled: at === n - 1}));
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
    this.showGiven();
  }

  // The text of the user or of a tool, as it is.
  showGiven() {
    this.body.replaceChildren(...(this.message.text ? [textBox(this.message.text, LONGEST_GIVEN)] : []));
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

  // Shows how long the model has been thinking.
  tickThinking(elapsed) {
    if (this.thinkingEnd) this.thinkingBox.querySelector("summary").textContent = `Thinking for ${seconds(elapsed)}`;
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
    this.callsPlanned = false;
    this.calls.replaceChildren(...(this.message.calls || []).filter(Boolean).map(callView));
  }

  // The arguments of calls have grown.
  growCalls() {
    if (this.callsPlanned) return;
    this.callsPlanned = true;
    laterGrowing(() => {
      if (this.callsPlanned) this.drawCalls();
      return false;
    });
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
    if (this.json !== undefined) this.show(jsonView(this.json));
    this.drawCalls();
    if (this.last && m.calls && m.calls.length > 0 && m.state === "done") this.calls.append(this.resultForm());
    this.drawFoot();
  }

  // Shows nodes in place of the text.
  show(...nodes) {
    this.body.replaceChildren(...nodes);
    this.body.removeAttribute("aria-busy");
  }

  showText() {
    if (this.message.role !== "assistant") {
      this.showGiven();
      return;
    }
    this.text = new GrowingText(this.body, this.message.text);
    this.text.finish();
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
      button("Send results", () => this.actions.answerCalls(this.message, fields.map((f) => [f.call.id, f.input.value])), {class: "primary"}));
  }

  // Shows the body that `make` returns until the button is pressed again.
  toggle(icon, label, make) {
    const control = iconButton(icon, label, () => {
      const shown = control.getAttribute("aria-pressed") === "true";
      for (const pressed of this.foot.querySelectorAll("[aria-pressed=true]")) pressed.setAttribute("aria-pressed", "false");
      control.setAttribute("aria-pressed", String(!shown));
      if (!shown) this.show(make());
      else if (this.json !== undefined) this.show(jsonView(this.json));
      else this.showText();
    }, {"aria-pressed": "false"});
    return control;
  }

  copyButton() {
    const control = iconButton("copy", "Copy", async () => {
      await copy(this.message.text);
      this.actions.announce("Copied.");
      control.classList.add("done");
      setTimeout(() => control.classList.remove("done"), 1200);
    }, {"aria-label": "Copy message"});
    return control;
  }

  drawFoot() {
    const m = this.message;
    const row = el("div", {class: "row"}, this.copyButton(), iconButton("edit", "Edit", () => this.actions.edit(this)));
    if (m.role === "assistant") row.append(iconButton("again", "Regenerate", () => this.actions.regenerate(m)));
    if (this.json !== undefined)
      row.append(this.toggle("source", "Source", () => textBox(m.text, LONGEST_SOURCE, {class: "plain mono"})));
    if (m.tokens && m.tokens.length > 0) row.append(this.toggle("tokens", "Tokens", () => tokensView(m.tokens)));
    if (m.stats) row.append(statsView(m.stats));
    const notes = [];
    if (STATES[m.state]) notes.push(el("p", {class: "note", text: STATES[m.state]}));
    if (m.error) notes.push(el("p", {class: "fault", role: "alert", text: bounded(m.error.slice(0, LONGEST_ERROR))}));
    this.foot.replaceChildren(...notes, row);
  }

  // A field in place of the text; `done(text)` is called with the new one.
  edit(done) {
    const input = el("textarea", {rows: "3", dir: "auto", "aria-label": "Edit message"});
    input.value = this.message.text;
    const cancel = () => {
      this.root.classList.remove("editing");
      if (this.json !== undefined) this.show(jsonView(this.json));
      else this.showText();
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
    this.root.classList.add("editing");
    this.show(input);
    const label = this.message.role === "assistant" ? "Save as version" : "Send";
    this.foot.replaceChildren(el("div", {class: "row"}, button(label, accept, {class: "primary"}), button("Cancel", cancel)));
    input.focus();
  }
}
