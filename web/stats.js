// SPDX-License-Identifier: Apache-2.0
// stats.js - what an answer cost: speed, reused prompt tokens and why not more, drafts, context.
import {bounded} from "./bounds.js";
import {el, number, seconds} from "./dom.js";

const LONGEST_VALUE = 2000;
const MOST_ITEMS = 100;

// The values of a last chunk that are stored with an answer.
export function statsOf(chunk) {
  const {timings, usage, mote} = chunk;
  const stats = {};
  if (usage) Object.assign(stats, {prompt: usage.prompt_tokens, answer: usage.completion_tokens});
  if (timings) Object.assign(stats, {rate: timings.predicted_per_second, prefillRate: timings.prompt_per_second});
  if (mote) Object.assign(stats, {cache: mote.cache, spec: mote.spec, ms: mote.ms, thinking: mote.thinking, stop: mote.stop,
    seed: mote.sampling && mote.sampling.seed, preset: mote.preset, warnings: mote.warnings, images: mote.images});
  return stats;
}

// The members that an imported file may have, with their types. "?": it may be missing. An object without
// another one is left out.
const SHAPE = {
  "prompt?": "number", "answer?": "number", "rate?": "number", "prefillRate?": "number", "seed?": "number", "preset?": "string",
  "cache?": {
    prompt: "number", reused: "number", prefilled: "number", "from?": "string", "compared?": "number",
    "answers?": {"by_id?": "number", "by_text?": "number", "unknown?": "number"},
    "miss?": {token: "number", "message?": "number", "usable?": "number", "tokens?": "number", "seconds?": "number",
      "before?": "string", "had?": "string", "got?": "string", "kind?": "string", "advice?": "string"},
  },
  "spec?": {drafted: "number", accepted: "number"},
  "ms?": {first_token: "number", total: "number", "queue?": "number", "load?": "number", "restore?": "number", "prefill?": "number"},
  "thinking?": {used: "number", "mode?": "string", "budget?": "number", "ended?": "string", "source?": "string"},
  "stop?": {cause: "string"},
  "images?": [{w: "number", h: "number", tokens: "number"}],
  "warnings?": [{code: "string", "at?": "string"}],
};

// The value with the members of the shape; undefined: it has another type.
function fitted(value, shape) {
  if (shape === "number") return Number.isFinite(value) ? value : undefined;
  if (shape === "string") return typeof value === "string" ? value : undefined;
  if (Array.isArray(shape))
    return Array.isArray(value) ? value.slice(0, MOST_ITEMS).map((v) => fitted(v, shape[0])).filter((v) => v !== undefined) : undefined;
  if (typeof value !== "object" || value === null) return undefined;
  const out = {};
  for (const [key, type] of Object.entries(shape)) {
    const name = key.replace("?", "");
    const member = Object.hasOwn(value, name) ? fitted(value[name], type) : undefined;
    if (member !== undefined) out[name] = member;
    else if (name === key) return undefined;
  }
  return out;
}

// Stats of an imported file, with types that statsView() can show; undefined: they are none.
export function checkedStats(value) {
  return fitted(value, SHAPE);
}

const FROM = {live: "from the running session", ram: "from memory", disk: "from disk"};

function cacheText(cache) {
  if (cache.reused === 0) return `${number(cache.prefilled)} prompt tokens prefilled, none reused`;
  return `${number(cache.reused)} of ${number(cache.prompt)} prompt tokens reused ${FROM[cache.from] || ""}, ${number(cache.prefilled)} prefilled`;
}

function rows(stats) {
  const out = [];
  if (stats.cache) out.push(["Prompt", cacheText(stats.cache)]);
  if (stats.prefillRate) out.push(["Prefill", `${number(stats.prefillRate)} tokens/s`]);
  if (stats.rate && stats.answer !== undefined) out.push(["Answer", `${number(stats.answer)} tokens, ${number(stats.rate, 1)} tokens/s`]);
  if (stats.ms) {
    out.push(["First token", seconds(stats.ms.first_token / 1000)]);
    out.push(["Total", seconds(stats.ms.total / 1000)]);
    if (stats.ms.queue > 0) out.push(["Queue", seconds(stats.ms.queue / 1000)]);
    if (stats.ms.load > 0) out.push(["Load of the model", seconds(stats.ms.load / 1000)]);
  }
  if (stats.spec && stats.spec.drafted > 0)
    out.push(["Drafts accepted", `${number(stats.spec.accepted)} of ${number(stats.spec.drafted)}`]);
  if (stats.thinking && stats.thinking.used > 0) out.push(["Thinking", `${number(stats.thinking.used)} tokens`]);
  for (const image of stats.images || [])
    out.push(["Image", `${image.w} \u00d7 ${image.h} pixels, ${number(image.tokens)} tokens`]);
  if (stats.stop) out.push(["Ended by", stats.stop.cause]);
  if (stats.preset) out.push(["Preset", stats.preset]);
  if (stats.seed !== undefined) out.push(["Seed", String(stats.seed)]);
  for (const warning of stats.warnings || []) out.push(["Warning", `${warning.code} ${warning.at || ""}`]);
  return out;
}

function missRows(miss) {
  const out = [["Not reused after", `token ${number(miss.token)}${miss.message === undefined ? "" : `, message ${miss.message}`}`]];
  if (miss.kind) out.push(["What differs", miss.kind]);
  if (miss.had !== undefined) out.push(["It was", miss.had]);
  if (miss.got !== undefined) out.push(["It is", miss.got]);
  if (miss.advice) out.push(["Advice", miss.advice]);
  return out;
}

function list(pairs) {
  return el("dl", {}, ...pairs.flatMap(([name, value]) => [el("dt", {text: name}), el("dd", {dir: "auto", text: bounded(String(value).slice(0, LONGEST_VALUE))})]));
}

function summary(stats) {
  const parts = [];
  if (stats.rate) parts.push(`${number(stats.rate, 1)} tokens/s`);
  if (stats.answer !== undefined) parts.push(`${number(stats.answer)} tokens`);
  if (stats.cache) parts.push(`${number(stats.cache.reused)} reused, ${number(stats.cache.prefilled)} prefilled`);
  if (stats.spec && stats.spec.drafted > 0) parts.push(`drafts ${stats.spec.accepted}/${stats.spec.drafted}`);
  return parts.join(" \u00b7 ") || "Details";
}

// A line that opens to a list.
export function statsView(stats) {
  const box = el("details", {class: "stats"}, el("summary", {text: summary(stats)}), list(rows(stats)));
  if (stats.cache && stats.cache.miss) box.append(list(missRows(stats.cache.miss)));
  return box;
}

// Tokens per second over the last seconds of a stream.
export class Rate {
  constructor() {
    this.times = [];
    this.count = 0;
  }

  add(n) {
    const now = performance.now();
    this.count += n;
    this.times.push([now, this.count]);
    while (this.times.length > 2 && now - this.times[0][0] > 3000) this.times.shift();
  }

  get value() {
    if (this.times.length < 2) return 0;
    const [first, last] = [this.times[0], this.times[this.times.length - 1]];
    return last[0] > first[0] ? (1000 * (last[1] - first[1])) / (last[0] - first[0]) : 0;
  }
}
