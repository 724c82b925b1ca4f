// SPDX-License-Identifier: Apache-2.0
// settings.js - model, thinking, system prompt, sampling, schema and tools of the next requests.
//
// They are in the local storage of the browser, for all conversations.
import {button, byId, el} from "./dom.js";
import {SAMPLING} from "./request.js";

const STORE = "mote-settings";
const PRESETS = [["", "automatic"], ["general", "general"], ["coding", "coding"], ["reasoning", "reasoning"], ["vision", "vision"]];
const STEPS = {temperature: 0.05, top_p: 0.01, min_p: 0.01, presence_penalty: 0.1, repetition_penalty: 0.01};
const LABELS = {
  temperature: "Temperature", top_p: "Top p", top_k: "Top k", min_p: "Min p", presence_penalty: "Presence penalty",
  repetition_penalty: "Repetition penalty", seed: "Seed", max_tokens: "Most answer tokens",
};

export const settings = {model: "", thinking: "", system: "", preset: "", alternatives: true, schema: "", tools: ""};

export function loadSettings() {
  try {
    Object.assign(settings, JSON.parse(localStorage.getItem(STORE) || "{}"));
  } catch {
    localStorage.removeItem(STORE);
  }
}

export function saveSettings() {
  localStorage.setItem(STORE, JSON.stringify(settings));
}

// What is wrong with a JSON text; "": nothing, or it is empty.
function jsonFault(text, isRight, expected) {
  if (text.trim() === "") return "";
  try {
    return isRight(JSON.parse(text)) ? "" : expected;
  } catch (error) {
    return error.message;
  }
}

function area(name, label, rows) {
  const input = el("textarea", {id: `set-${name}`, rows, dir: "auto", spellcheck: "false"});
  input.value = settings[name];
  return el("label", {class: "field"}, el("span", {text: label}), input);
}

function numberField(name) {
  const input = el("input", {id: `set-${name}`, type: "number", step: String(STEPS[name] || 1), placeholder: "default"});
  if (typeof settings[name] === "number") input.value = String(settings[name]);
  return el("label", {class: "field small"}, el("span", {text: LABELS[name]}), input);
}

function presetField() {
  const select = el("select", {id: "set-preset"}, ...PRESETS.map(([value, label]) => el("option", {value, text: label})));
  select.value = settings.preset;
  return el("label", {class: "field"}, el("span", {text: "Sampling preset of the model"}), select);
}

function alternativesField() {
  const input = el("input", {id: "set-alternatives", type: "checkbox"});
  input.checked = settings.alternatives;
  return el("label", {class: "check"}, input, " Record the alternatives of each token");
}

function read(dialog) {
  const schema = byId("set-schema").value;
  const tools = byId("set-tools").value;
  const fault = jsonFault(schema, (v) => typeof v === "object" && v !== null, "the schema is not an object")
    || jsonFault(tools, Array.isArray, "the tools are not an array");
  if (fault) {
    byId("settings-fault").textContent = `JSON: ${fault}`;
    return;
  }
  Object.assign(settings, {
    system: byId("set-system").value, preset: byId("set-preset").value,
    alternatives: byId("set-alternatives").checked, schema: schema.trim(), tools: tools.trim(),
  });
  for (const name of SAMPLING) {
    const value = byId(`set-${name}`).value;
    if (value === "") delete settings[name];
    else settings[name] = Number(value);
  }
  saveSettings();
  dialog.close();
}

function clearSampling() {
  for (const name of SAMPLING) byId(`set-${name}`).value = "";
  byId("set-preset").value = "";
}

export function openSettings() {
  const dialog = byId("settings");
  dialog.replaceChildren(
    el("h2", {id: "settings-title", text: "Settings"}),
    area("system", "System prompt", 3),
    el("fieldset", {}, el("legend", {text: "Sampling"}), presetField(),
      el("div", {class: "grid"}, ...SAMPLING.map(numberField)), button("Defaults of the model", clearSampling)),
    area("schema", "JSON schema of the answer", 3),
    area("tools", "Tools (array of function definitions)", 3),
    alternativesField(),
    el("p", {id: "settings-fault", class: "fault", role: "alert"}),
    el("div", {class: "row"}, button("Save", () => read(dialog), {class: "primary"}), button("Cancel", () => dialog.close())));
  dialog.showModal();
}

// Connects the two selections of the header. `models` as /v1/models lists them.
export function bindHeader(models) {
  const select = byId("model");
  select.replaceChildren(...models.map((m) => el("option", {value: m.id, text: m.id})));
  if (!models.some((m) => m.id === settings.model)) settings.model = models.length > 0 ? models[0].id : "";
  select.value = settings.model;
  byId("thinking").value = settings.thinking;
}
