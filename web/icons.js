// SPDX-License-Identifier: Apache-2.0
// icons.js - small line drawings for buttons, as SVG. Each is a path in a square of 24.
import {button, el} from "./dom.js";

const NS = "http://www.w3.org/2000/svg";
const PATHS = {
  again: "M20 12a8 8 0 1 1-2.4-5.7M20 3v5h-5",
  attach: "M12 5v14M5 12h14",
  camera: "M4 8h3.5l1.5-3h6l1.5 3H20v11H4zM12 16.5a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4z",
  chart: "M4 20h17M7 16v-5M12 16V5M17 16V9",
  chat: "M4 5h16v11H10l-4 4v-4H4z",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  down: "M12 4v11M7 10l5 5 5-5M5 20h14",
  edit: "M4 20l1-4L16 5l3 3L8 19zM14 7l3 3",
  left: "M14 6l-6 6 6 6",
  menu: "M4 7h16M4 12h16M4 17h16",
  remove: "M6 6l12 12M18 6L6 18",
  right: "M10 6l6 6-6 6",
  search: "M10.5 17a6.5 6.5 0 1 1 0-13 6.5 6.5 0 0 1 0 13zM15.5 15.5L20 20",
  send: "M12 19V5M6 11l6-6 6 6",
  settings: "M4 8h9M19 8h1M4 16h1M11 16h9M16 5v6M8 13v6",
  source: "M9 5H8a2 2 0 0 0-2 2v3l-2 2 2 2v3a2 2 0 0 0 2 2h1M15 5h1a2 2 0 0 1 2 2v3l2 2-2 2v3a2 2 0 0 1-2 2h-1",
  stop: "M8 8h8v8H8z",
  tokens: "M4 8h6M14 8h6M4 16h9M17 16h3",
  trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.5 11v5M13.5 11v5",
  up: "M12 15V4M7 9l5-5 5 5M5 20h14",
};

export function icon(name) {
  const drawing = document.createElementNS(NS, "svg");
  for (const [key, value] of Object.entries({viewBox: "0 0 24 24", "aria-hidden": "true", class: "icon"})) drawing.setAttribute(key, value);
  const path = document.createElementNS(NS, "path");
  path.setAttribute("d", PATHS[name]);
  drawing.append(path);
  return drawing;
}

// A button with a drawing; its label is for screen readers and the pointer.
export function iconButton(name, label, click, options = {}) {
  const control = button("", click, {title: label, ...options, class: `ghost ${options.class || ""}`.trim()});
  control.append(icon(name), el("span", {class: "sr", text: label}));
  return control;
}

// Adds the drawings of the buttons that the document has: data-icon is the name.
export function drawIcons() {
  for (const control of document.querySelectorAll("[data-icon]")) control.prepend(icon(control.dataset.icon));
}
