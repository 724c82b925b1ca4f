// SPDX-License-Identifier: Apache-2.0
// bounds.js - limits of what is shown at once: marks on a letter, characters of a line or text.
import {button, el, number} from "./dom.js";

// A browser lays out a letter with its marks as one thing, in a time that grows with the square of their
// number. No language needs more than a few; terminals have such limits too.
const MOST_MARKS = 16;
const MOST_JOINED = 16;
const MARKS = new RegExp(`([\\p{M}\\p{Cf}\\u{1f3fb}-\\u{1f3ff}]{${MOST_MARKS}})[\\p{M}\\p{Cf}\\u{1f3fb}-\\u{1f3ff}]+`, "gu");
const JOINED = new RegExp(`((?:[^\\u200d]\\u200d\\p{M}*){${MOST_JOINED}})`, "gu");

// The text with at most MOST_MARKS marks or invisible characters in a row, then U+FFFD; and at most
// MOST_JOINED joined signs.
export function bounded(text) {
  return text.replace(MARKS, "$1\ufffd").replace(JOINED, "$1\u200b");
}

// Without half of a surrogate pair or a letter without its marks at the end.
export function cutAt(text, most) {
  if (text.length <= most) return text.length;
  const code = text.charCodeAt(most);
  return code >= 0xdc00 && code <= 0xdfff ? most - 1 : most;
}

// A box with the beginning of a text, and a button that shows more of it.
export function textBox(text, most, options = {}) {
  const box = el("div", {class: "plain", dir: "auto", ...options});
  const show = (from, n) => {
    const end = from + cutAt(text.slice(from), n);
    box.append(el("span", {class: "part", text: bounded(text.slice(from, end))}));
    if (end < text.length) box.append(moreButton(text.length - end, () => show(end, 20000)));
  };
  show(0, most);
  return box;
}

export function moreText(n) {
  return `${number(n)} more characters`;
}

function moreButton(n, show) {
  const control = button(`Show ${moreText(n)}`, () => {
    control.remove();
    show();
  }, {class: "more"});
  return control;
}
