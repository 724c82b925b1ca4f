// SPDX-License-Identifier: Apache-2.0
// key_dialog.js - asks the user for an API key.
import {badKeyCharacter, setKey} from "./api.js";
import {button, byId, el} from "./dom.js";

// What is wrong with a key; empty: nothing. Keys copied from a document may have invisible characters.
function faultOf(key) {
  const at = badKeyCharacter(key);
  if (at < 0) return "";
  const code = key.codePointAt(at).toString(16).toUpperCase().padStart(4, "0");
  return `Character ${at + 1} of this key is U+${code}. Keys have printable ASCII characters only, without blanks. `
    + "Copy the key from the place where it was made, or type it.";
}

// Resolves when the dialog is closed: true if a key was entered.
export function askForKey(reason) {
  const dialog = byId("key");
  if (dialog.open) return Promise.resolve(false);
  const input = el("input", {type: "password", autocomplete: "off", id: "key-input", "aria-describedby": "key-fault"});
  const fault = el("p", {class: "fault", role: "alert", id: "key-fault"});
  return new Promise((resolve) => {
    let entered = false;
    const accept = () => {
      const key = input.value.trim();
      fault.textContent = faultOf(key);
      if (fault.textContent !== "") {
        input.focus();
        return;
      }
      entered = key !== "";
      if (entered) setKey(key);
      dialog.close();
    };
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter") accept();
    });
    dialog.replaceChildren(
      el("h2", {id: "key-title", text: "API key"}),
      el("p", {text: reason}),
      el("label", {class: "field"}, el("span", {text: "Key"}), input), fault,
      el("p", {class: "muted", text: "The key stays in this tab and is forgotten when the tab is closed."}),
      el("div", {class: "row"}, button("Use key", accept, {class: "primary"}), button("Cancel", () => dialog.close())));
    dialog.addEventListener("close", () => resolve(entered), {once: true});
    dialog.showModal();
  });
}
