// SPDX-License-Identifier: Apache-2.0
// growing_text.js - shows a text that grows, or a complete one, in slices.
//
// Complete blocks are rendered once; only the last block is rendered again. Code is not rendered again at
// all: its view takes what is added. docs/web.md has the limits.
import {closesFence, fenceOf, lineEnd, LONGEST_LINE, MOST_UNITS_OF_BLOCK, nextBlock, skipBlankLines, unitsOf} from "./blocks.js";
import {bounded, moreText} from "./bounds.js";
import {CodeView} from "./code_view.js";
import {el} from "./dom.js";
import {hasLongLine, render, sanitize} from "./markdown.js";
import {isLeft, later, laterGrowing, spend} from "./slices.js";

const BLOCKS_OF_GROUP = 40; // the browser lays out a group of blocks again, not all of a long text
const LONGEST_PREVIEW = 1000; // characters, until the first slice is rendered
const NEAR_GROUPS = 4; // the browser may skip older ones while they are not seen
const UNITS_OF_CODE = 200; // of a box without its text
const LINK_TARGET = /^ {0,3}\[[^\]]+\]:/m;

export class GrowingText {
  constructor(box, text = "") {
    this.box = box;
    this.text = text;
    this.fixed = 0;
    this.prefix = ""; // before the next block
    this.code = null; // {view, mark} of code that is not closed
    this.groups = [];
    this.tail = el("div", {class: "tail"});
    this.tailFrom = -1; // start of the long line in the tail
    this.planned = false;
    this.ended = false;
    box.replaceChildren(this.tail);
  }

  append(text) {
    this.text += text;
    if (this.planned) return;
    this.planned = true;
    this.box.setAttribute("aria-busy", "true");
    laterGrowing(() => this.draw());
  }

  // false: the box shows something else now.
  isShown() {
    return this.tail.parentNode === this.box;
  }

  // A job of slices.js.
  draw() {
    this.planned = this.isShown() && this.drawSome();
    if (!this.planned && this.ended && this.isShown()) this.box.removeAttribute("aria-busy");
    return this.planned;
  }

  // true: there is more to draw.
  drawSome() {
    if (this.code && this.code.view.draw()) return true;
    if (this.code && this.code.closed) this.code = null;
    while (this.fixed < this.text.length) {
      if (!isLeft(this.unitsAhead())) return true;
      const state = this.code ? this.drawCode() : this.drawBlock();
      if (state === "more") return true;
      if (state === "wait") return false;
    }
    this.clearTail();
    return false;
  }

  // The next step costs at most this.
  unitsAhead() {
    return this.code ? 0 : UNITS_OF_CODE + Math.min(MOST_UNITS_OF_BLOCK, unitsOf(this.text.slice(this.fixed, this.fixed + MOST_UNITS_OF_BLOCK)));
  }

  // ---- blocks ----

  drawBlock() {
    if (this.prefix === "") this.fixed = skipBlankLines(this.text, this.fixed);
    if (this.fixed === this.text.length) return "wait";
    const fence = fenceOf(this.prefix || this.line());
    if (fence) return this.openCode(fence);
    const {end, complete, prefix} = nextBlock(this.text, this.fixed, this.prefix);
    if (!complete && !this.ended) {
      this.drawTail();
      return "wait";
    }
    this.add(render(this.prefix + this.text.slice(this.fixed, end)));
    this.fixed = end;
    this.prefix = prefix;
    return "on";
  }

  line() {
    return this.text.slice(this.fixed, Math.min(lineEnd(this.text, this.fixed), this.fixed + 400)).trimEnd();
  }

  // Before the tail, in a group of its neighbours.
  add(nodes) {
    const last = this.groups[this.groups.length - 1];
    (last && last.childElementCount < BLOCKS_OF_GROUP ? last : this.addGroup()).append(nodes);
    this.clearTail();
  }

  addGroup() {
    const group = el("div", {class: "group"});
    this.tail.before(group);
    this.groups.push(group);
    if (this.groups.length > NEAR_GROUPS) this.groups[this.groups.length - 1 - NEAR_GROUPS].classList.add("far");
    return group;
  }

  clearTail() {
    this.tail.replaceChildren();
    this.tailFrom = -1;
  }

  // A line that is too long is drawn once; then only the number of its other characters changes.
  drawTail() {
    const text = this.prefix + this.text.slice(this.fixed);
    const more = this.tailFrom === this.fixed ? this.tail.querySelector("button.more") : null;
    if (more) {
      more.textContent = `Show ${moreText(text.length - LONGEST_LINE)}`;
      return;
    }
    this.tail.replaceChildren(render(text));
    this.tailFrom = hasLongLine(text) ? this.fixed : -1;
  }

  // ---- code ----

  openCode(fence) {
    const end = this.prefix ? this.fixed : lineEnd(this.text, this.fixed);
    if (!this.prefix && this.text[end - 1] !== "\n" && !this.ended) {
      this.clearTail(); // the line of the language is not complete
      return "wait";
    }
    spend(UNITS_OF_CODE);
    this.code = {view: new CodeView(fence.language, sanitize), mark: fence.mark, fed: end};
    this.prefix = "";
    this.add(this.code.view.root);
    this.fixed = end;
    return "on";
  }

  // Gives lines to the view until one closes the code. A last line that may become the closing one waits.
  drawCode() {
    const {view, mark} = this.code;
    while (this.fixed < this.text.length) {
      const end = lineEnd(this.text, this.fixed);
      const whole = this.text[end - 1] === "\n";
      const line = this.text.slice(this.fixed, Math.min(end, this.fixed + 400)).replace(/\r?\n$/, "");
      if (this.fixed === this.code.fed && closesFence(line, mark) && (whole || this.ended)) {
        this.fixed = end;
        return this.closeCode();
      }
      if (this.fixed === this.code.fed && !whole && !this.ended && /^ {0,3}[`~]/.test(line)) break;
      view.append(this.text.slice(this.fixed, end));
      this.fixed = end;
      if (whole) this.code.fed = end;
    }
    return view.draw() ? "more" : "wait";
  }

  // What follows is drawn after all of the code.
  closeCode() {
    this.code.closed = true;
    if (this.code.view.draw()) return "more";
    this.code = null;
    return "on";
  }

  // ---- the end ----

  // Draws the end of the text. A short one with link targets is rendered as a whole: its blocks need them.
  finish() {
    this.ended = true;
    this.box.setAttribute("aria-busy", "true");
    if (this.fixed === 0 && !this.tail.hasChildNodes()) this.tail.textContent = bounded(this.text.slice(0, LONGEST_PREVIEW));
    later(() => {
      if (!this.needsWhole()) return this.draw();
      if (!isLeft(MOST_UNITS_OF_BLOCK)) return true;
      if (!this.isShown()) return false;
      this.box.replaceChildren(render(this.text));
      this.box.removeAttribute("aria-busy");
      return false;
    });
  }

  needsWhole() {
    return this.text.length <= MOST_UNITS_OF_BLOCK && LINK_TARGET.test(this.text) && unitsOf(this.text) <= MOST_UNITS_OF_BLOCK;
  }
}
