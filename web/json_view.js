// SPDX-License-Identifier: Apache-2.0
// json_view.js - a JSON value as tables: members of an object as rows, objects of an array as columns.
import {el} from "./dom.js";

const MOST_ROWS = 500;
const MOST_LEVELS = 12;

function scalar(value) {
  return el("span", {class: `json-${value === null ? "null" : typeof value}`, dir: "auto", text: String(value)});
}

function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function more(n) {
  return n > MOST_ROWS ? el("p", {class: "muted", text: `${n - MOST_ROWS} more rows; the source has all of them`}) : null;
}

function objectTable(value, level) {
  const rows = Object.entries(value);
  const body = el("tbody", {}, ...rows.slice(0, MOST_ROWS).map(([name, member]) =>
    el("tr", {}, el("th", {scope: "row", dir: "auto", text: name}), el("td", {}, jsonView(member, level + 1)))));
  return el("div", {}, el("table", {class: "json"}, body), more(rows.length));
}

function arrayTable(list, level) {
  const columns = [...new Set(list.slice(0, MOST_ROWS).flatMap((row) => Object.keys(row)))];
  const head = el("tr", {}, ...columns.map((name) => el("th", {scope: "col", dir: "auto", text: name})));
  const rows = list.slice(0, MOST_ROWS).map((row) => el("tr", {}, ...columns.map((name) =>
    el("td", {}, ...(name in row ? [jsonView(row[name], level + 1)] : [])))));
  return el("div", {}, el("table", {class: "json"}, el("thead", {}, head), el("tbody", {}, ...rows)), more(list.length));
}

export function jsonView(value, level = 0) {
  if (typeof value !== "object" || value === null) return scalar(value);
  if (level > MOST_LEVELS) return el("code", {text: JSON.stringify(value)});
  if (isObject(value)) return objectTable(value, level);
  if (value.length > 0 && value.every(isObject)) return arrayTable(value, level);
  const items = value.slice(0, MOST_ROWS).map((item) => el("li", {}, jsonView(item, level + 1)));
  return el("div", {}, el("ul", {class: "json"}, ...items), more(value.length));
}
