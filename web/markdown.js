// SPDX-License-Identifier: Apache-2.0
// markdown.js - text of a model to DOM nodes.
//
// Model output is untrusted. markdown-it escapes HTML in it, and DOMPurify then builds the nodes from an
// allow-list of elements and attributes. No other module makes HTML from text; the policy header of the
// page enforces that (docs/web.md). Images are shown as links: loading one would be a request that the
// text of a model has chosen.
import DOMPurify from "./vendor/purify.js";
import hljs from "./vendor/highlight.js";
import MarkdownIt from "./vendor/markdown-it.js";
import {button, copy, el, number} from "./dom.js";

// A longer block is divided at a line end. A longer line is shown as plain text, cut: its layout would block
// the page.
const LONGEST_BLOCK = 8000;
const LONGEST_CODE = 40000;
const LONGEST_HIGHLIGHTED = 10000;
const LONGEST_HIGHLIGHTED_TAIL = 3000; // while it grows

const TAGS = ["a", "blockquote", "br", "code", "del", "em", "h1", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre",
  "s", "span", "strong", "table", "tbody", "td", "th", "thead", "tr", "ul"];
const ATTRIBUTES = ["class", "dir", "href", "rel", "start", "target", "title"];
const BLOCKS = "p, li, h1, h2, h3, h4, h5, h6, blockquote, td, th, table";

const parser = new MarkdownIt({html: false, linkify: false, typographer: false, maxNesting: 20});
parser.renderer.rules.image = (tokens, i) => {
  const source = tokens[i].attrGet("src") || "";
  const text = tokens[i].content || source;
  return `<a href="${parser.utils.escapeHtml(source)}">${parser.utils.escapeHtml(text)}</a>`;
};
for (const rule of ["th_open", "td_open"])
  parser.renderer.rules[rule] = (tokens, i, options, env, self) => {
    const align = /text-align:(\w+)/.exec(tokens[i].attrGet("style") || "");
    tokens[i].attrs = align ? [["class", `align-${align[1]}`]] : [];
    return self.renderToken(tokens, i, options);
  };

function highlighted(code, language, most) {
  if (code.length > most || !hljs.getLanguage(language)) return parser.utils.escapeHtml(code);
  return hljs.highlight(code, {language, ignoreIllegals: true}).value;
}

parser.renderer.rules.fence = (tokens, i, options, env) => {
  const language = tokens[i].info.trim().split(/\s+/)[0].toLowerCase();
  const name = /^[\w+#.-]{1,30}$/.test(language) ? language : "";
  return `<pre><code class="language-${parser.utils.escapeHtml(name)}">${highlighted(tokens[i].content, name, env.most)}</code></pre>`;
};

function addLinkRules(fragment) {
  for (const link of fragment.querySelectorAll("a")) {
    if (!/^(https?:|mailto:)/i.test(link.getAttribute("href") || "")) link.removeAttribute("href");
    link.setAttribute("rel", "noopener noreferrer nofollow");
    link.setAttribute("target", "_blank");
  }
}

function addCodeButtons(fragment) {
  for (const pre of fragment.querySelectorAll("pre")) {
    const code = pre.querySelector("code") || pre;
    const language = /language-(\S+)/.exec(code.className);
    const head = el("div", {class: "code-head"}, el("span", {text: language ? language[1] : ""}),
      button("Copy", () => copy(code.textContent), {"aria-label": "Copy code"}));
    const box = el("div", {class: "code"});
    pre.setAttribute("dir", "ltr");
    pre.setAttribute("tabindex", "0");
    pre.replaceWith(box);
    box.append(head, pre);
  }
}

function plain(text) {
  const shown = text.slice(0, LONGEST_BLOCK);
  const box = el("div", {class: "plain", dir: "auto", text: shown});
  if (text.length > shown.length)
    box.append(el("p", {class: "muted", text: `${number(text.length - shown.length)} more characters; Copy has all of them`}));
  return box;
}

function isCode(text) {
  return /^ {0,3}(```|~~~)/.test(text);
}

// One or more blocks of Markdown to a fragment. Code of more than `most` characters is not highlighted.
export function render(text, most = LONGEST_HIGHLIGHTED) {
  if (text.length > (isCode(text) ? LONGEST_CODE : LONGEST_BLOCK)) {
    const fragment = document.createDocumentFragment();
    fragment.append(plain(text.trimEnd()));
    return fragment;
  }
  const fragment = DOMPurify.sanitize(parser.render(text, {most}), {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
  });
  addLinkRules(fragment);
  for (const block of fragment.querySelectorAll(BLOCKS)) block.setAttribute("dir", "auto");
  addCodeButtons(fragment);
  return fragment;
}

const LIST = /^ {0,3}(?:[-*+]|\d{1,9}[.)])\s/;

// Where blocks begin after `from`, at most MOST_STARTS of them: after a blank line or the end of code, before a
// line that cannot continue a list; and outside of code where a block becomes too long.
const MOST_STARTS = 50;

export function blockStarts(text, from) {
  const starts = [];
  let begin = from;
  let fence = null;
  let free = false; // the next line may begin a block
  let list = false;
  for (let i = from; i < text.length && starts.length < MOST_STARTS;) {
    const end = text.indexOf("\n", i);
    const line = text.slice(i, Math.min(end < 0 ? text.length : end, i + 200));
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line);
    if (fence) {
      if (mark && mark[1].startsWith(fence) && line.trim() === mark[1]) {
        fence = null;
        free = !list;
      }
    } else if (line.trim() === "") {
      free = true;
    } else {
      const item = LIST.test(line);
      const long = (end < 0 ? text.length : end) - begin > LONGEST_BLOCK;
      if (i > begin && (long || (free && !/^\s/.test(line) && !(list && item)))) {
        starts.push(i);
        begin = i;
        list = false;
      }
      list = list || item;
      free = false;
      if (mark) fence = mark[1];
    }
    if (end < 0) break;
    i = end + 1;
  }
  return starts;
}

// Shows a text that grows. Complete blocks are rendered once, for a few milliseconds at a time; only the
// last block is rendered again, and less often the longer that takes.
const BUDGET_MS = 30;
const REST_MS = 40;

export class GrowingText {
  constructor(box, text = "") {
    this.box = box;
    this.text = text;
    this.fixed = 0;
    this.tail = el("div", {class: "tail"});
    this.timer = null;
    this.cost = 0;
    this.ended = false;
    box.replaceChildren(this.tail);
  }

  append(text) {
    this.text += text;
    this.schedule();
  }

  schedule() {
    if (this.timer === null) this.timer = setTimeout(() => this.draw(), Math.max(REST_MS, 5 * this.cost));
  }

  // false: the box shows something else now.
  isShown() {
    return this.tail.parentNode === this.box;
  }

  draw() {
    const began = performance.now();
    this.timer = null;
    if (!this.isShown()) return;
    for (const at of blockStarts(this.text, this.fixed)) {
      if (performance.now() - began > BUDGET_MS) {
        this.schedule();
        return;
      }
      this.tail.before(render(this.text.slice(this.fixed, at)));
      this.fixed = at;
    }
    const most = this.ended ? LONGEST_HIGHLIGHTED : LONGEST_HIGHLIGHTED_TAIL;
    if (blockStarts(this.text, this.fixed).length > 0) this.schedule();
    else this.tail.replaceChildren(render(this.text.slice(this.fixed), most));
    this.cost = performance.now() - began;
  }

  // Draws the end of the text. A short one with link targets is rendered as a whole: its blocks need them.
  finish() {
    const whole = this.text.length <= LONGEST_BLOCK && /^ {0,3}\[[^\]]+\]:/m.test(this.text);
    clearTimeout(this.timer);
    this.timer = null;
    this.ended = true;
    if (!this.tail.hasChildNodes()) this.tail.textContent = this.text.slice(0, LONGEST_BLOCK);
    renderSoon(() => {
      if (!whole) this.draw();
      else if (this.isShown()) this.box.replaceChildren(render(this.text));
    });
  }
}

// Runs tasks a few milliseconds at a time, the newest first: the end of a conversation is seen first.
const waiting = [];

function runWaiting() {
  const began = performance.now();
  while (waiting.length > 0 && performance.now() - began < BUDGET_MS) waiting.pop()();
  if (waiting.length > 0) setTimeout(runWaiting);
}

function renderSoon(task) {
  waiting.push(task);
  if (waiting.length === 1) setTimeout(runWaiting);
}
