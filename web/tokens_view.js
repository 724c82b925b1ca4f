// SPDX-License-Identifier: Apache-2.0
// tokens_view.js - the tokens of an answer, each a button that shows its alternatives.
import {button, byId, el, number} from "./dom.js";

const MOST = 4000;

const percent = (logprob) => `${number(100 * Math.exp(logprob), 1)} %`;

// Blanks and line ends as visible signs.
function visible(text) {
  return text.replace(/\n/g, "\u21b5").replace(/\t/g, "\u2192").replace(/ /g, "\u00b7") || "\u2205";
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

// `tokens` as recordToken() makes them.
export function tokensView(tokens) {
  const box = el("div", {class: "tokens", dir: "auto"});
  for (const token of tokens.slice(0, MOST)) {
    box.append(el("button", {
      type: "button", class: likelihood(token.logprob), text: token.text || "\u2205",
      "aria-label": `${visible(token.text)}, ${percent(token.logprob)}`, on: {click: () => showAlternatives(token)},
    }));
    if (token.text.includes("\n")) box.append(el("br"));
  }
  if (tokens.length > MOST) box.append(el("p", {class: "muted", text: `${number(tokens.length - MOST)} more tokens`}));
  return box;
}

// A token of a logprobs object in the form that is stored.
export function recordToken(t) {
  return {text: t.token, logprob: t.logprob, top: (t.top_logprobs || []).map((a) => [a.token, a.logprob])};
}
