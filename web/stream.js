// SPDX-License-Identifier: Apache-2.0
// stream.js - server-sent events of a fetch reply: data lines and comments.

// Yields {data} and {comment} for each line of a body. Bytes that are not UTF-8 become U+FFFD.
export async function* events(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let parts = [];
  try {
    for (;;) {
      const {value, done} = await reader.read();
      const lines = (done ? decoder.decode() : decoder.decode(value, {stream: true})).split("\n");
      for (let i = 0; i < lines.length; i++) {
        parts.push(lines[i]);
        if (i === lines.length - 1) break;
        const line = parts.join("").replace(/\r$/, "");
        parts = [];
        if (line.startsWith("data:")) yield {data: line.slice(5).trimStart()};
        else if (line.startsWith(":")) yield {comment: line.slice(1).trim()};
      }
      if (done) return;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

// What a comment of mote says: {queue}, {prefill: {done, total, seconds}} or {}.
export function progress(comment) {
  const queue = /^queue (\d+)/.exec(comment);
  if (queue) return {queue: Number(queue[1])};
  const prefill = /^prefill (\d+)\/(\d+)(?: ([\d.]+))?/.exec(comment);
  if (!prefill) return {};
  return {prefill: {done: Number(prefill[1]), total: Number(prefill[2]), seconds: Number(prefill[3] || 0)}};
}
