// SPDX-License-Identifier: Apache-2.0
// dashboard.js - requests, speed, latency and memory of the server, read while the tab is shown.
//
// The values come from /v1/status and /metrics, which need the scope metrics.
import {ApiError, get, getText} from "./api.js";
import {bars, LineChart} from "./charts.js";
import {button, byId, bytes, el, number, seconds} from "./dom.js";
import {askForKey} from "./key_dialog.js";
import {buckets, parseMetrics, percentile} from "./metrics.js";

const EVERY_MS = 2000;
const LATENCIES = [
  ["Time to first token", "mote_time_to_first_token_seconds"],
  ["Time between tokens", "mote_inter_token_latency_seconds"],
  ["Time in the queue", "mote_request_queue_seconds"],
];
const MEMORY = [["weights", "Weights"], ["kv_cache", "KV cache"], ["recurrent_state", "Recurrent state"], ["model", "Tokenizer and tables"],
  ["scratch", "Scratch"], ["vision", "Vision encoder"]];

function counted(n, word) {
  return n === undefined ? "" : `${number(n)} ${word}${n === 1 ? "" : "s"}`;
}

function upText(uptime) {
  if (uptime < 60) return seconds(uptime);
  return uptime < 5400 ? `${number(uptime / 60)} min` : `${number(uptime / 3600, 1)} h`;
}

export class Dashboard {
  constructor() {
    this.root = byId("dashboard");
    this.timer = null;
    this.before = null;
    this.charts = {
      requests: new LineChart("Requests", ["running", "queued"], (v) => number(v), 1),
      speed: new LineChart("Tokens per second", ["generated", "prefilled"], (v) => number(v, v < 100 ? 1 : 0), 1),
      latency: new LineChart("Time to first token", ["p50", "p99"], seconds, 0.001),
    };
    this.facts = el("p", {class: "muted"});
    this.tiles = el("dl", {class: "tiles"});
    this.memory = el("section", {class: "card"});
    this.table = el("section", {class: "card"});
    this.streams = el("section", {class: "card"});
  }

  show() {
    this.root.replaceChildren(el("h2", {text: "Dashboard"}), this.facts, this.tiles,
      el("div", {class: "cards"}, ...Object.values(this.charts).map((c) => c.root), this.memory, this.table, this.streams));
    this.tick();
  }

  hide() {
    clearTimeout(this.timer);
    this.timer = null;
  }

  async tick() {
    try {
      const [status, text] = await Promise.all([get("/v1/status"), getText("/metrics")]);
      this.draw(status, parseMetrics(text));
    } catch (error) {
      if (error instanceof ApiError && error.status < 500) {
        this.refused(error);
        return;
      }
      this.facts.textContent = "The server does not answer.";
      this.before = null;
    }
    if (!this.root.hidden) this.timer = setTimeout(() => this.tick(), EVERY_MS);
  }

  refused(error) {
    const enter = async () => {
      if (await askForKey("The dashboard needs a key with the scope metrics. A server without API keys has a key for its "
        + "user in the file PORT.key of the directory mote in XDG_RUNTIME_DIR, or of /tmp/mote-UID.")) this.show();
    };
    this.root.replaceChildren(el("h2", {text: "Dashboard"}), el("p", {text: error.message}), button("Enter a key", enter));
  }

  draw(status, metrics) {
    const now = {time: performance.now(), totals: status.totals, histograms: LATENCIES.map(([, name]) => buckets(metrics, name))};
    this.facts.textContent = [`mote ${status.version}`, status.model, status.isa, counted(status.threads, "thread"),
      `up ${upText(status.uptime)}`, counted(status.connections, "connection")].filter(Boolean).join(" \u00b7 ");
    this.drawTiles(status, now);
    this.charts.requests.add([status.prefill + status.decode, status.queued]);
    if (this.before) this.addRates(this.before, now);
    this.drawMemory(status.memory);
    this.drawLatency(now);
    this.drawStreams(status.streams || []);
    this.before = now;
  }

  drawTiles(status, now) {
    const first = percentile([], now.histograms[0], 0.5);
    const tiles = [["Running", number(status.prefill + status.decode)], ["Queued", number(status.queued)],
      ["Answers", number(status.totals.answers)], ["First token, p50", first === null ? "\u2013" : seconds(first)],
      ["Memory", bytes(status.memory.total)]];
    this.tiles.replaceChildren(...tiles.map(([name, value]) => el("div", {class: "card"}, el("dt", {text: name}), el("dd", {text: value}))));
  }

  addRates(before, now) {
    const elapsed = (now.time - before.time) / 1000;
    const rate = (name) => Math.max(0, now.totals[name] - before.totals[name]) / elapsed;
    this.charts.speed.add([rate("generated_tokens"), rate("prefill_tokens")]);
    this.charts.latency.add([0.5, 0.99].map((p) => percentile(before.histograms[0], now.histograms[0], p)));
  }

  drawMemory(memory) {
    const limit = memory.limit > 0 ? ` of ${bytes(memory.limit)}` : "";
    this.memory.replaceChildren(el("h3", {text: `Memory: ${bytes(memory.total)}${limit}`}),
      bars(MEMORY.filter(([kind]) => memory[kind] > 0).map(([kind, name]) => [name, memory[kind]]), bytes));
  }

  drawLatency(now) {
    const cell = (value) => el("td", {class: "number", text: value === null ? "\u2013" : seconds(value)});
    const rows = LATENCIES.map(([name], i) => el("tr", {}, el("th", {scope: "row", text: name}),
      ...[0.5, 0.9, 0.99].map((p) => cell(percentile([], now.histograms[i], p)))));
    this.table.replaceChildren(el("h3", {text: "Latency since start"}), el("table", {},
      el("thead", {}, el("tr", {}, el("td"), ...["p50", "p90", "p99"].map((p) => el("th", {scope: "col", text: p})))),
      el("tbody", {}, ...rows)));
  }

  drawStreams(streams) {
    const rows = streams.map((s) => el("tr", {}, el("td", {text: s.model}), el("td", {text: s.phase}),
      el("td", {class: "number", text: number(s.prompt)}), el("td", {class: "number", text: number(s.reused)}),
      el("td", {class: "number", text: number(s.generated)}), el("td", {class: "number", text: seconds(s.age)})));
    this.streams.replaceChildren(el("h3", {text: "Requests now"}),
      rows.length === 0 ? el("p", {class: "muted", text: "none"}) : el("table", {},
        el("thead", {}, el("tr", {}, ...["Model", "Phase", "Prompt", "Reused", "Generated", "Age"].map((t) => el("th", {scope: "col", text: t})))),
        el("tbody", {}, ...rows)));
  }
}
