// SPDX-License-Identifier: Apache-2.0
// dom.js - elements from code, formatted numbers, downloads, the clipboard.

// el("button", {class: "x", text: "Send", on: {click: f}, type: "button"}, child, ...)
// Other members of `options` are attributes; false and null leave an attribute out.
export function el(tag, options = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(options)) {
    if (name === "text") e.textContent = value;
    else if (name === "on") for (const [event, f] of Object.entries(value)) e.addEventListener(event, f);
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.filter((child) => child !== null && child !== undefined));
  return e;
}

export function button(label, click, options = {}) {
  return el("button", {type: "button", text: label, on: {click}, ...options});
}

export const byId = (id) => document.getElementById(id);

export function number(value, digits = 0) {
  return value.toLocaleString("en", {minimumFractionDigits: digits, maximumFractionDigits: digits});
}

export function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; value >= 1000 && i < units.length - 1; i++) value /= 1000;
  return `${number(value, i === 0 || value >= 100 ? 0 : 1)} ${units[i]}`;
}

export function seconds(value) {
  return value < 1 ? `${number(value * 1000)} ms` : `${number(value, 1)} s`;
}

// Offers a text as a file.
export function download(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], {type}));
  const link = el("a", {href: url, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// Copies a text. Without the clipboard of a secure context it selects a hidden field.
export async function copy(text) {
  if (navigator.clipboard) {
    await navigator.clipboard.writeText(text);
    return;
  }
  const field = el("textarea", {class: "hidden-field", "aria-hidden": "true"});
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}
