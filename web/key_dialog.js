// SPDX-License-Identifier: Apache-2.0
// key_dialog.js - asks the user for an API key.
import {setKey} from "./api.js";
import {button, byId, el} from "./dom.js";

// Resolves when the dialog is closed: true if a key was entered.
export function askForKey(reason) {
  const dialog = byId("key");
  if (dialog.open) return Promise.resolve(false);
  const input = el("input", {type: "password", autocomplete: "off", id: "key-input"});
  return new Promise((resolve) => {
    let entered = false;
    const accept = () => {
      entered = input.value.trim() !== "";
      if (entered) setKey(input.value.trim());
      dialog.close();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") accept();
    });
    dialog.replaceChildren(
      el("h2", {id: "key-title", text: "API key"}),
      el("p", {text: reason}),
      el("label", {class: "field"}, el("span", {text: "Key"}), input),
      el("p", {class: "muted", text: "The key stays in this tab and is forgotten when the tab is closed."}),
      el("div", {class: "row"}, button("Use key", accept, {class: "primary"}), button("Cancel", () => dialog.close())));
    dialog.addEventListener("close", () => resolve(entered), {once: true});
    dialog.showModal();
  });
}
