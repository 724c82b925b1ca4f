// SPDX-License-Identifier: Apache-2.0
// charts.js - line charts of the last minutes, and bars, as SVG.
import {el} from "./dom.js";

const WIDTH = 320;
const HEIGHT = 90;
const GRID = [0.25, 0.5, 0.75, 1];
const NS = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
  const e = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, String(value));
  return e;
}

const height = (share) => HEIGHT - 2 - share * (HEIGHT - 6);

// The end of a scale: 1, 2 or 5 times a power of ten.
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value * 0.999);
}

// Values of a few series at regular times.
export class LineChart {
  // `series` are names; `format(value)` is the text of a value; `least` is the lowest end of the scale.
  constructor(title, series, format, least, room = 150) {
    this.series = series.map((name) => ({name, values: []}));
    this.format = format;
    this.least = least;
    this.room = room;
    this.drawing = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", preserveAspectRatio: "none"});
    this.top = el("span", {class: "muted"});
    this.legend = el("ul", {class: "legend"});
    this.root = el("figure", {class: "chart"}, el("figcaption", {}, el("span", {text: title}), this.top), this.drawing, this.legend);
    this.title = title;
    this.draw();
  }

  add(values) {
    this.series.forEach((s, i) => {
      s.values.push(values[i]);
      if (s.values.length > this.room) s.values.shift();
    });
    this.draw();
  }

  draw() {
    const top = niceTop(Math.max(this.least, ...this.series.flatMap((s) => s.values.filter((v) => v !== null))));
    const grid = GRID.map((share) => svg("line", {class: "grid-line", x1: 0, x2: WIDTH, y1: height(share), y2: height(share)}));
    const lines = this.series.map((s, k) => svg("polyline", {class: `line line-${k}`, fill: "none", points: this.points(s.values, top)}));
    this.drawing.replaceChildren(...grid, ...lines);
    this.top.textContent = this.format(top);
    const texts = this.series.map((s) => {
      const last = s.values[s.values.length - 1];
      return `${s.name}: ${last === null || last === undefined ? "none" : this.format(last)}`;
    });
    this.drawing.setAttribute("aria-label", `${this.title}. ${texts.join(", ")}`);
    this.legend.replaceChildren(...texts.map((text, k) => el("li", {class: `legend-${k}`, text})));
  }

  points(values, top) {
    const from = this.room - values.length;
    return values.map((v, i) => (v === null ? null
      : `${((from + i) * WIDTH) / (this.room - 1)},${height(v / top)}`)).filter(Boolean).join(" ");
  }
}

// Rows with a name, a bar and a value.
export function bars(rows, format) {
  const top = Math.max(1, ...rows.map(([, value]) => value));
  return el("table", {class: "bars"}, el("tbody", {}, ...rows.map(([name, value]) => el("tr", {},
    el("th", {scope: "row", text: name}),
    el("td", {}, el("meter", {min: "0", max: String(top), value: String(value), "aria-label": name})),
    el("td", {class: "number", text: format(value)})))));
}
