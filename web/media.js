// SPDX-License-Identifier: Apache-2.0
// media.js - image and video files, and the camera, to what a request can carry.
//
// The server decodes JPEG, PNG, WebP and GIF; other images are drawn and encoded again. Frames of a video
// are taken by the browser, so every format that it plays can be sent.
import {button, byId, el} from "./dom.js";

const KEPT_TYPES = ["image/jpeg", "image/png", "image/webp", "image/gif"];
const LARGEST_FILE = 6e6;
const LARGEST_SIDE = 2048;
const FRAME_SIDE = 512;
const FRAMES_PER_SECOND = 2;
const MOST_FRAMES = 32;
const FEWEST_FRAMES = 4;

function dataUrl(blob) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result);
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(blob);
  });
}

// Draws a source so that its longer side has at most `most` pixels.
function drawn(source, width, height, most) {
  const scale = Math.min(1, most / Math.max(width, height));
  const canvas = el("canvas");
  canvas.width = Math.max(1, Math.round(width * scale));
  canvas.height = Math.max(1, Math.round(height * scale));
  canvas.getContext("2d").drawImage(source, 0, 0, canvas.width, canvas.height);
  return canvas;
}

async function readImage(file) {
  if (KEPT_TYPES.includes(file.type) && file.size <= LARGEST_FILE)
    return {kind: "image", name: file.name, url: await dataUrl(file)};
  let bitmap;
  try {
    bitmap = await createImageBitmap(file);
  } catch {
    throw new Error(`${file.name} is not an image that this browser can read`);
  }
  const url = drawn(bitmap, bitmap.width, bitmap.height, LARGEST_SIDE).toDataURL("image/jpeg", 0.92);
  bitmap.close();
  return {kind: "image", name: file.name, url};
}

function once(target, event, failed) {
  return new Promise((resolve, reject) => {
    target.addEventListener(event, resolve, {once: true});
    target.addEventListener("error", () => reject(new Error(failed)), {once: true});
  });
}

// Recorded files say their length only after a seek to the end.
async function lengthOf(video, failed) {
  if (Number.isFinite(video.duration)) return video.duration;
  video.currentTime = 1e9;
  await once(video, "seeked", failed);
  return video.duration;
}

async function readVideo(file) {
  const failed = `${file.name} is not a video that this browser can play`;
  const url = URL.createObjectURL(file);
  try {
    const video = el("video", {muted: true, preload: "auto", src: url});
    await once(video, "loadeddata", failed);
    const length = await lengthOf(video, failed);
    const n = Math.max(FEWEST_FRAMES, Math.min(MOST_FRAMES, Math.round(length * FRAMES_PER_SECOND)));
    const frames = [];
    for (let i = 0; i < n; i++) {
      video.currentTime = (length * (i + 0.5)) / n;
      await once(video, "seeked", failed);
      frames.push(drawn(video, video.videoWidth, video.videoHeight, FRAME_SIDE).toDataURL("image/jpeg", 0.9));
    }
    return {kind: "video", name: file.name, url: frames[0], frames, fps: length > 0 ? n / length : 1};
  } finally {
    URL.revokeObjectURL(url);
  }
}

// {kind, name, url} and for a video {frames, fps}. Throws an Error with a sentence for the user.
export function readMedia(file) {
  if (file.type.startsWith("image/")) return readImage(file);
  if (file.type.startsWith("video/")) return readVideo(file);
  return Promise.reject(new Error(`${file.name} is neither an image nor a video`));
}

// Shows the camera; resolves to an image, or null if it was closed.
export async function takePhoto() {
  if (!navigator.mediaDevices) throw new Error("the camera needs https or localhost");
  const stream = await navigator.mediaDevices.getUserMedia({video: true});
  const dialog = byId("camera-dialog");
  const video = el("video", {muted: true, autoplay: true, playsinline: true, "aria-label": "Image of the camera"});
  video.srcObject = stream;
  return new Promise((resolve) => {
    let photo = null;
    const take = () => {
      photo = {kind: "image", name: "camera.jpg",
        url: drawn(video, video.videoWidth, video.videoHeight, LARGEST_SIDE).toDataURL("image/jpeg", 0.92)};
      dialog.close();
    };
    const shot = button("Take photo", take, {class: "primary", disabled: true});
    video.addEventListener("loadeddata", () => shot.removeAttribute("disabled"));
    dialog.replaceChildren(el("h2", {id: "camera-title", text: "Camera"}), video,
      el("div", {class: "row"}, shot, button("Cancel", () => dialog.close())));
    dialog.addEventListener("close", () => {
      for (const track of stream.getTracks()) track.stop();
      resolve(photo);
    }, {once: true});
    dialog.showModal();
  });
}
