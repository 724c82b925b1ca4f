// SPDX-License-Identifier: Apache-2.0
// composer.js - the box for a new message: text, attachments by file, paste, drop and camera.
import {byId, el} from "./dom.js";
import {iconButton} from "./icons.js";
import {readMedia, takePhoto} from "./media.js";

const MOST_MEDIA = 16;

export class Composer {
  // `send(text, media)` is called with the contents; `fail(text)` with a sentence for the user.
  constructor(send, fail) {
    this.send = send;
    this.fail = fail;
    this.media = [];
    this.input = byId("input");
    this.list = byId("attachments");
    byId("send").addEventListener("click", () => this.submit());
    byId("attach").addEventListener("click", () => byId("attach-file").click());
    byId("camera").addEventListener("click", () => this.photo());
    byId("attach-file").addEventListener("change", (event) => {
      this.addFiles(event.target.files);
      event.target.value = "";
    });
    this.input.addEventListener("keydown", (event) => this.onKey(event));
    this.input.addEventListener("input", () => this.fit());
    document.addEventListener("paste", (event) => this.onPaste(event));
    const chat = byId("chat");
    chat.addEventListener("dragover", (event) => {
      event.preventDefault();
      chat.classList.add("dropping");
    });
    chat.addEventListener("dragleave", () => chat.classList.remove("dropping"));
    chat.addEventListener("drop", (event) => {
      event.preventDefault();
      chat.classList.remove("dropping");
      this.addFiles(event.dataTransfer.files);
    });
  }

  onKey(event) {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      this.submit();
    }
  }

  onPaste(event) {
    if (event.clipboardData.files.length === 0 || byId("chat").hidden) return;
    event.preventDefault();
    this.addFiles(event.clipboardData.files);
  }

  // As high as its text, up to a limit of the style sheet.
  fit() {
    this.input.style.height = "auto";
    this.input.style.height = `${this.input.scrollHeight + 2}px`;
  }

  async addFiles(files) {
    for (const file of files) {
      try {
        this.add(await readMedia(file));
      } catch (error) {
        this.fail(error.message);
      }
    }
  }

  async photo() {
    try {
      const photo = await takePhoto();
      if (photo) this.add(photo);
    } catch (error) {
      this.fail(`no image from the camera: ${error.message}`);
    }
  }

  add(item) {
    if (this.media.length >= MOST_MEDIA) {
      this.fail(`a message has at most ${MOST_MEDIA} images and videos`);
      return;
    }
    this.media.push(item);
    const row = el("li", {}, el("img", {src: item.url, alt: item.name}), el("span", {text: item.name}),
      iconButton("remove", "Remove", () => {
        this.media.splice(this.media.indexOf(item), 1);
        row.remove();
      }, {"aria-label": `Remove ${item.name}`}));
    this.list.append(row);
  }

  submit() {
    const text = this.input.value.trim();
    if (text === "" && this.media.length === 0) return;
    if (!this.send(text, this.media)) return;
    this.input.value = "";
    this.fit();
    this.media = [];
    this.list.replaceChildren();
  }
}
