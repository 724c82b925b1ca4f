// SPDX-License-Identifier: Apache-2.0
// highlighter.js - asks the worker for highlighted code, one request at a time.
const URL = "/web/highlight_worker.js";
const PATIENCE_MS = 10000; // then the worker is ended: the code keeps its plain text

// The policy of the page allows this one script.
const script = window.trustedTypes
  ? window.trustedTypes.createPolicy("mote-worker", {createScriptURL: () => URL}).createScriptURL(URL) : URL;

const queue = [];
let worker = null;
let running = null;

function start() {
  worker = new Worker(script, {type: "module"});
  worker.onmessage = ({data}) => {
    if (running && data.id === running.id) end(data.parts);
  };
  worker.onerror = () => restart();
}

function restart() {
  worker.terminate();
  worker = null;
  if (running) end(null);
}

function end(parts) {
  const {resolve, timer} = running;
  clearTimeout(timer);
  running = null;
  next();
  resolve(parts);
}

let lastId = 0;

function next() {
  while (queue.length > 0 && !queue[0].isWanted()) queue.shift().resolve(null);
  if (running || queue.length === 0) return;
  running = {...queue.shift(), id: ++lastId, timer: setTimeout(restart, PATIENCE_MS)};
  if (worker === null) start();
  worker.postMessage({id: running.id, code: running.code, language: running.language});
}

// HTML of the parts of the code, as code_parts.js divides it; null: it stays plain. A request that
// isWanted() no longer when its turn comes is left out.
export function highlight(code, language, isWanted) {
  return new Promise((resolve) => {
    queue.push({code, language, isWanted, resolve});
    next();
  });
}
