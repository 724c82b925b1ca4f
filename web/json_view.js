// SPDX-License-Identifier: Apache-2.0
// json_view.js - a JSON value as tables: members of an object as rows, objects of an array as columns.
//
// At most MOST_CELLS with MOST_CHARACTERS are made; the source has all of them.
import {bounded, cutAt} from "./bounds.js";
import {el, number} from "./dom.js";

const MOST_CELLS = 1000;
const MOST_LEVELS = 12;
const LONGEST_TEXT = 2000;
const LONGEST_NAME = 200;
const MOST_CHARACTERS = 20000; // of all cells

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// Makes an element of each member of a list while there is room for cells.
class Maker {
  constructor() {
    this.left = MOST_CELLS;
    this.characters = MOST_CHARACTERS;
  }

  short(text, most) {
    const shown = text.slice(0, cutAt(text, Math.min(most, this.characters)));
    this.characters -= shown.length;
    return bounded(shown) + (shown.length < text.length ? "\u2026" : "");
  }

  scalar(value) {
    return el("span", {class: `json-${value === null ? "null" : typeof value}`, dir: "auto", text: this.short(String(value), LONGEST_TEXT)});
  }

  rows(list, make) {
    const out = [];
    for (const member of list) {
      if (this.left <= 0) break;
      this.left--;
      out.push(make(member));
    }
    return out;
  }

  more(made, list) {
    return made.length < list.length
      ? el("p", {class: "muted", text: `${number(list.length - made.length)} more; the source has all of them`}) : null;
  }

  name(text, scope) {
    return el("th", {scope, dir: "auto", text: this.short(text, LONGEST_NAME)});
  }

  object(value, level) {
    const list = Object.entries(value);
    const rows = this.rows(list, ([name, member]) => el("tr", {}, this.name(name, "row"), el("td", {}, this.view(member, level + 1))));
    return el("div", {class: "scroll"}, el("table", {class: "json"}, el("tbody", {}, ...rows)), this.more(rows, list));
  }

  array(list, level) {
    const columns = [...new Set(list.slice(0, MOST_CELLS).flatMap((row) => Object.keys(row).slice(0, MOST_CELLS)))];
    const shown = columns.slice(0, Math.max(1, this.left));
    const head = el("tr", {}, ...this.rows(shown, (name) => this.name(name, "col")));
    const rows = this.rows(list, (row) => el("tr", {}, ...shown.map((name) => {
      this.left--;
      return el("td", {}, ...(Object.hasOwn(row, name) ? [this.view(row[name], level + 1)] : []));
    })));
    return el("div", {class: "scroll"}, el("table", {class: "json"}, el("thead", {}, head), el("tbody", {}, ...rows)), this.more(rows, list));
  }

  view(value, level) {
    if (typeof value !== "object" || value === null) return this.scalar(value);
    if (level > MOST_LEVELS) return el("span", {class: "muted", text: "\u2026"});
    if (isObject(value)) return this.object(value, level);
    if (value.length > 0 && value.every(isObject)) return this.array(value, level);
    const items = this.rows(value, (item) => el("li", {}, this.view(item, level + 1)));
    return el("div", {}, el("ul", {class: "json"}, ...items), this.more(items, value));
  }
}

export function jsonView(value) {
  return new Maker().view(value, 0);
}
