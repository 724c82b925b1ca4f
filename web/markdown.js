// SPDX-License-Identifier: Apache-2.0
// markdown.js - text of a model to DOM nodes.
//
// Model output is untrusted. markdown-it escapes HTML in it, and DOMPurify then builds the nodes from an
// allow-list of elements and attributes. No other module makes HTML from text; the policy header of the
// page enforces that (docs/web.md). Images are shown as links: loading one would be a request that the
// text of a model has chosen.
import {LONGEST_LINE, lineEnd, unitsOf} from "./blocks.js";
import {bounded, textBox} from "./bounds.js";
import {CodeView} from "./code_view.js";
import {later, spend} from "./slices.js";
import DOMPurify from "./vendor/purify.js";
import MarkdownIt from "./vendor/markdown-it.js";

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
parser.renderer.rules.fence = (tokens, i) => {
  const language = tokens[i].info.trim().split(/\s+/)[0].toLowerCase();
  const name = /^[\w+#.-]{1,30}$/.test(language) ? language : "";
  return `<pre><code class="language-${parser.utils.escapeHtml(name)}">${parser.utils.escapeHtml(tokens[i].content)}</code></pre>`;
};

export function sanitize(html) {
  return DOMPurify.sanitize(html, {
    ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true,
  });
}

function addLinkRules(fragment) {
  for (const link of fragment.querySelectorAll("a")) {
    if (!/^(https?:|mailto:)/i.test(link.getAttribute("href") || "")) link.removeAttribute("href");
    link.setAttribute("rel", "noopener noreferrer nofollow");
    link.setAttribute("target", "_blank");
  }
}

function addCodeViews(fragment) {
  for (const pre of fragment.querySelectorAll("pre")) {
    const code = pre.querySelector("code") || pre;
    const language = /language-(\S+)/.exec(code.className);
    const view = new CodeView(language ? language[1] : "", sanitize);
    view.append(code.textContent);
    pre.replaceWith(view.root);
    later(() => view.draw());
  }
}

// Has the text a line that is too long to be parsed?
export function hasLongLine(text) {
  if (text.length <= LONGEST_LINE) return false;
  for (let i = 0; i < text.length;) {
    const end = lineEnd(text, i);
    if (end - i > LONGEST_LINE) return true;
    i = end;
  }
  return false;
}

// One or more blocks of Markdown to nodes.
export function render(text) {
  if (hasLongLine(text)) {
    spend(LONGEST_LINE);
    const fragment = document.createDocumentFragment();
    fragment.append(textBox(text.trimEnd(), LONGEST_LINE));
    return fragment;
  }
  spend(unitsOf(text));
  const fragment = sanitize(parser.render(bounded(text)));
  addLinkRules(fragment);
  for (const block of fragment.querySelectorAll(BLOCKS)) block.setAttribute("dir", "auto");
  addCodeViews(fragment);
  return fragment;
}
