// SPDX-License-Identifier: Apache-2.0
// api.js - requests to the server that sent this page, with the key of the user.
//
// The key is in the session storage: the browser drops it with the tab. Nothing here sends it anywhere
// but to the origin of the page.
import {events, progress} from "./stream.js";

const KEY = "mote-key";

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

// Index of the first character that no key has; -1: there is none. fetch() throws for most of them, just as
// it does if no server answers.
export function badKeyCharacter(value) {
  return value.search(/[^!-~]/);
}

export function key() {
  return sessionStorage.getItem(KEY) || "";
}

export function setKey(value) {
  if (value) sessionStorage.setItem(KEY, value);
  else sessionStorage.removeItem(KEY);
}

// A stored key that cannot be sent is forgotten, so that the user is asked for another one.
function authorization() {
  if (badKeyCharacter(key()) >= 0) {
    setKey("");
    throw new ApiError(401, "bad_key", "the API key of this tab had characters that no key has: enter the key again");
  }
  return key() ? {Authorization: `Bearer ${key()}`} : {};
}

async function send(path, options = {}) {
  const headers = {...options.headers, ...authorization()};
  const reply = await fetch(path, {...options, headers, credentials: "omit", cache: "no-store"});
  if (reply.ok) return reply;
  let error = {};
  try {
    error = (await reply.json()).error || {};
  } catch {
    // A proxy replied with something else than JSON: the status says enough.
  }
  throw new ApiError(reply.status, error.code || "", error.message || `the server replied with status ${reply.status}`);
}

export const get = async (path) => (await send(path)).json();
export const getText = async (path) => (await send(path)).text();

export async function models() {
  return (await get("/v1/models")).data;
}

export async function isUp() {
  try {
    return (await fetch("/health", {cache: "no-store"})).ok;
  } catch {
    return false;
  }
}

// Ends the thinking of a running request.
export async function endThinking(id) {
  await send("/v1/chat/completions/control", {
    method: "POST", headers: {"Content-Type": "application/json"},
    body: JSON.stringify({id, action: "reasoning_end"}),
  });
}

// Streams a chat completion. Yields {chunk} for each data line and what progress() returns for comments.
// Throws an ApiError for an error in the stream, or if the stream ends before its last event.
export async function* chat(body, signal) {
  const reply = await send("/v1/chat/completions", {
    method: "POST", signal, body: JSON.stringify(body), headers: {"Content-Type": "application/json"},
  });
  for await (const event of events(reply.body)) {
    if (event.comment !== undefined) {
      yield progress(event.comment);
      continue;
    }
    if (event.data === "[DONE]") return;
    let chunk;
    try {
      chunk = JSON.parse(event.data);
    } catch {
      throw new ApiError(0, "bad_stream", "the server sent a line that is not JSON");
    }
    if (chunk.error) throw new ApiError(0, chunk.error.code || "", chunk.error.message || "the server reported an error");
    yield {chunk};
  }
  throw new ApiError(0, "cut", "the connection ended before the answer was complete");
}
