// SPDX-License-Identifier: Apache-2.0
// main.js - starts the page: models, conversations, views, keys of the keyboard, lost connections.
import * as api from "./api.js";
import {Chat} from "./chat.js";
import {Composer} from "./composer.js";
import {Dashboard} from "./dashboard.js";
import {byId} from "./dom.js";
import {drawIcons} from "./icons.js";
import {askForKey} from "./key_dialog.js";
import {bindHeader, loadSettings, openSettings, saveSettings, settings} from "./settings.js";
import {Sidebar} from "./sidebar.js";
import * as store from "./store.js";

const RETRY_MS = 1000;

let models = [];
let waiting = false;

function banner(text) {
  byId("banner").hidden = text === "";
  byId("banner").textContent = text;
}

// ---- the server ----

async function loadModels() {
  models = await api.models();
  bindHeader(models);
  chat.drawUsage();
}

async function connect() {
  try {
    await loadModels();
    banner("");
  } catch (error) {
    if (error.status === 401 || error.status === 403) await unauthorized(error);
    else if (error.status === undefined || error.status >= 500) await lost();
    else banner(error.message);
  }
}

async function unauthorized(error) {
  banner(error.message);
  if (await askForKey(error.message)) await connect();
}

// Waits until the server replies again.
async function lost() {
  if (waiting) return;
  waiting = true;
  banner("The server does not answer. The conversation is kept; the page tries again every second.");
  do await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  while (!(await api.isUp()));
  waiting = false;
  chat.say("Connected again.");
  await connect();
}

// ---- views ----

function showView(name) {
  byId("chat").hidden = name !== "chat";
  byId("dashboard").hidden = name !== "dashboard";
  document.body.classList.toggle("dashboard-open", name === "dashboard");
  for (const tab of ["chat", "dashboard"]) {
    if (tab === name) byId(`tab-${tab}`).setAttribute("aria-current", "page");
    else byId(`tab-${tab}`).removeAttribute("aria-current");
  }
  if (name === "dashboard") dashboard.show();
  else dashboard.hide();
}

function onKey(event) {
  if (event.key === "Escape" && !document.querySelector("dialog[open]") && event.target.tagName !== "TEXTAREA") chat.stop();
  if (event.key === "Escape" && event.target === byId("input")) chat.stop();
  if (!event.altKey || event.ctrlKey || event.metaKey) return;
  const action = {
    n: () => sidebar.newChat(),
    s: () => {
      sidebar.toggle(true);
      byId("search").focus();
    },
    m: () => byId("model").focus(),
    i: () => byId("input").focus(),
    d: () => showView(byId("dashboard").hidden ? "dashboard" : "chat"),
    ",": () => openSettings(),
  }[event.key.toLowerCase()];
  if (action) {
    event.preventDefault();
    action();
  }
}

// ---- start ----

drawIcons();
loadSettings();
const chat = new Chat({
  changed: () => sidebar.draw(),
  lost,
  unauthorized,
  contextOf: (name) => (models.find((m) => m.id === name) || {}).context_length,
});
const sidebar = new Sidebar(chat);
const dashboard = new Dashboard();
new Composer((text, media) => chat.send(text, media), (text) => chat.say(text));

byId("model").addEventListener("change", (event) => {
  settings.model = event.target.value;
  saveSettings();
  chat.drawUsage();
});
byId("thinking").addEventListener("change", (event) => {
  settings.thinking = event.target.value;
  saveSettings();
});
byId("open-settings").addEventListener("click", openSettings);
byId("tab-chat").addEventListener("click", () => showView("chat"));
byId("tab-dashboard").addEventListener("click", () => showView("dashboard"));
document.addEventListener("keydown", onKey);

try {
  await store.open();
  await sidebar.draw();
} catch (error) {
  banner(`Conversations cannot be stored in this browser: ${error.message}`);
}
await connect();
performance.mark("ready");
document.body.dataset.ready = "true";
