// SPDX-License-Identifier: Apache-2.0
// tokens_view.js - the tokens of an answer, each a button that shows its alternatives.
import {bounded} from "./bounds.js";
import {button, byId, el, number} from "./dom.js";

const SHOWN = 500; // and as many more with each click
const LONGEST_TOKEN = 100;
const MOST_ALTERNATIVES = 20; // of a request

const percent = (logprob) => `${number(100 * Math.exp(logprob), 1)} %`;

// Blanks and line ends as visible signs.
function visible(text) {
  return bounded(text.slice(0, LONGEST_TOKEN)).replace(/\n/g, "\u21b5").replace(/\t/g, "\u2192").replace(/ /g, "\u00b7") || "\u2205";
}

function showAlternatives(token) {
  const dialog = byId("alternatives");
  const rows = token.top.map(([text, logprob]) => el("tr", {class: text === token.text ? "chosen" : ""},
    el("td", {}, el("code", {dir: "auto", text: visible(text)})),
    el("td", {}, el("meter", {min: "0", max: "1", value: String(Math.exp(logprob)), "aria-hidden": "true"})),
    el("td", {class: "number", text: percent(logprob)})));
  dialog.replaceChildren(
    el("h2", {id: "alternatives-title", text: "Alternatives"}),
    el("p", {}, "Chosen: ", el("code", {dir: "auto", text: visible(token.text)}), ` with ${percent(token.logprob)}`),
    el("table", {}, el("thead", {}, el("tr", {}, el("th", {scope: "col", text: "Token"}), el("th", {scope: "col", text: "Share"}),
      el("th", {scope: "col", text: "Probability"}))), el("tbody", {}, ...rows)),
    button("Close", () => dialog.close()));
  dialog.showModal();
}

// The class says how likely the token was.
function likelihood(logprob) {
  const p = Math.exp(logprob);
  return p > 0.9 ? "sure" : p > 0.5 ? "likely" : p > 0.1 ? "unsure" : "rare";
}

function tokenNodes(token) {
  const text = token.text.slice(0, LONGEST_TOKEN);
  const control = button(bounded(text) || "\u2205", () => showAlternatives(token),
    {class: likelihood(token.logprob), "aria-label": `${visible(token.text)}, ${percent(token.logprob)}`});
  return text.includes("\n") ? [control, el("br")] : [control];
}

// `tokens` as recordToken() makes them.
export function tokensView(tokens) {
  const box = el("div", {class: "tokens", dir: "auto"});
  const show = (from) => {
    box.append(...tokens.slice(from, from + SHOWN).map(readToken).flatMap(tokenNodes));
    const left = tokens.length - from - SHOWN;
    if (left <= 0) return;
    const more = button(`Show ${number(Math.min(left, SHOWN))} of ${number(left)} more tokens`, () => {
      more.remove();
      show(from + SHOWN);
    }, {class: "more"});
    box.append(more);
  };
  show(0);
  return box;
}

// A token of a logprobs object in the form that is stored: a text, because a browser copies ten thousand
// texts in the time of a few hundred objects.
export function recordToken(t) {
  return JSON.stringify({text: t.token, logprob: t.logprob, top: (t.top_logprobs || []).map((a) => [a.token, a.logprob])});
}

function readToken(record) {
  return typeof record === "string" ? JSON.parse(record) : record;
}

function checkedToken(record) {
  const {text, logprob, top} = readToken(record);
  const isPair = (pair) => Array.isArray(pair) && typeof pair[0] === "string" && Number.isFinite(pair[1]);
  if (typeof text !== "string" || !Number.isFinite(logprob) || !Array.isArray(top) || !top.every(isPair)) throw new TypeError("not a token");
  return JSON.stringify({text, logprob, top: top.slice(0, MOST_ALTERNATIVES).map(([other, its]) => [other, its])});
}

// The tokens of an imported file; undefined: one of them is damaged.
export function checkedTokens(list) {
  try {
    return list.map(checkedToken);
  } catch {
    return undefined;
  }
}
