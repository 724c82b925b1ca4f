// SPDX-License-Identifier: Apache-2.0
// code_view.js - a box of code that may grow: plain at once, highlighted when the worker has answered.
import {bounded, cutAt, moreText} from "./bounds.js";
import {partEnds} from "./code_parts.js";
import {button, copy, el} from "./dom.js";
import {highlight} from "./highlighter.js";
import {isLeft, later, spend} from "./slices.js";

const LONGEST_CODE = 200000;
const LONGEST_HIGHLIGHTED = 20000;
const LONGEST_LINE = 1000; // a longer one is cut, and its code is not highlighted
const REST_MS = 200; // between two requests for code that grows
const UNITS_OF_LINE = 10;

function shownLines(text) {
  return bounded(text.split("\n").map((line) => (
    line.length > LONGEST_LINE ? `${line.slice(0, cutAt(line, LONGEST_LINE))}\u2026` : line)).join("\n"));
}

function unitsOf(text) {
  return text.length + UNITS_OF_LINE * text.split("\n").length;
}

export class CodeView {
  // `sanitize(html)` returns nodes.
  constructor(language, sanitize) {
    this.language = /^[\w+#.-]{1,30}$/.test(language) ? language : "";
    this.sanitize = sanitize;
    this.text = "";
    this.parts = []; // the last one grows: `line` is the start of its last line, `open` the node of that
    this.code = el("code", {class: this.language ? `language-${this.language}` : ""});
    this.note = null;
    this.asked = 0; // length of the text that was sent to the highlighter
    this.asking = false;
    this.plain = this.language === "";
    this.root = el("div", {class: "code"},
      el("div", {class: "code-head"}, el("span", {text: this.language}),
        button("Copy", () => copy(this.text), {"aria-label": "Copy code"})),
      el("pre", {dir: "ltr", tabindex: "0"}, this.code));
  }

  append(text) {
    this.text += text;
  }

  // Draws what was appended. true: there is more to draw.
  draw() {
    const text = this.text.length > LONGEST_CODE ? this.text.slice(0, LONGEST_CODE) : this.text;
    let part = this.parts[this.parts.length - 1];
    for (const [k, to] of partEnds(text, part ? part.from : 0).entries()) {
      if (k > 0 || !part) part = this.addPart(part ? part.to : 0);
      if (to === part.to) continue;
      const units = unitsOf(shownLines(text.slice(part.line, to)));
      if (!isLeft(units)) return true;
      spend(units);
      this.extend(part, text, to);
    }
    if (this.text.length > text.length) this.drawNote(this.text.length - text.length);
    this.ask();
    return false;
  }

  addPart(from) {
    const part = {node: el("span", {class: "part"}), from, to: from, line: from, open: null, html: null};
    this.parts.push(part);
    this.code.append(part.node);
    return part;
  }

  // The last line is drawn again as a whole while it grows, so that its limits hold.
  extend(part, text, to) {
    const added = text.slice(part.line, to);
    if (part.open === null) part.node.append((part.open = new Text()));
    part.open.data = shownLines(added);
    if (added.length > LONGEST_LINE && added.split("\n").some((line) => line.length > LONGEST_LINE)) this.plain = true;
    part.to = to;
    if (!added.includes("\n")) return;
    if (added.endsWith("\n")) part.open = null;
    else {
      const last = added.slice(added.lastIndexOf("\n") + 1);
      part.open.data = shownLines(added.slice(0, -last.length));
      part.node.append((part.open = new Text(shownLines(last))));
    }
    part.line = text.lastIndexOf("\n", to - 1) + 1;
  }

  drawNote(n) {
    if (this.note === null) this.root.append(this.note = el("p", {class: "muted note"}));
    this.note.textContent = `${moreText(n)}; Copy has all of them`;
  }

  // All that was drawn is sent, up to a limit.
  async ask() {
    const length = Math.min(this.text.length, LONGEST_HIGHLIGHTED);
    if (this.plain || this.asking || this.asked === length) return;
    this.asking = true;
    this.asked = length;
    const htmls = await highlight(this.text.slice(0, length), this.language, () => this.root.closest(".message") !== null);
    if (htmls === null) {
      this.plain = true;
      return;
    }
    later(() => this.colour(htmls, length));
    setTimeout(() => {
      this.asking = false;
      this.ask();
    }, REST_MS);
  }

  // Shows the highlighted parts of the first `length` characters. true: there are more.
  colour(htmls, length) {
    for (let i = 0; i < htmls.length && i < this.parts.length; i++) {
      const part = this.parts[i];
      if (part.html === htmls[i]) continue;
      const end = Math.min(part.to, Math.max(length, part.from));
      const rest = shownLines(this.text.slice(end, part.to));
      const units = end - part.from + unitsOf(rest);
      if (!isLeft(units)) return true;
      spend(units);
      part.html = htmls[i];
      part.node.replaceChildren(this.sanitize(bounded(htmls[i])));
      part.line = end;
      part.open = null;
      if (rest) part.node.append((part.open = new Text(rest)));
    }
    return false;
  }
}
