// SPDX-License-Identifier: Apache-2.0
// slices.js - work on the page in slices, so that no text of a model can block it.
//
// A slice runs jobs until a number of units or milliseconds is used. A unit is about one character that is
// parsed and laid out. The next slice waits until the browser has shown the last one: layout and painting
// of one slice are bounded too.
const MOST_UNITS = 8000;
const BUDGET_MS = 25;
const REST_MS = 40; // between the slices of a text that grows
const SOON_MS = 4;

// For tests: slices that were run, units of all of them, most units of one.
export const work = {slices: 0, units: 0, most: 0};

const waiting = []; // the last one is run first
let planned = false;
let used = 0;
let began = 0;

// Counts units of the running slice.
export function spend(units) {
  used += units;
  work.units += units;
}

// May the running slice do `units` more? Always true at its beginning: something is done in each slice.
export function isLeft(units = 0) {
  return used === 0 || (used + units <= MOST_UNITS && performance.now() - began < BUDGET_MS);
}

function run() {
  planned = false;
  began = performance.now();
  used = 0;
  const again = [];
  while (waiting.length > 0 && isLeft()) {
    const job = waiting.pop();
    if (job()) again.push(job);
  }
  waiting.push(...again.reverse());
  work.slices++;
  work.most = Math.max(work.most, used);
  if (waiting.length > 0) plan(SOON_MS);
}

function plan(ms) {
  if (planned) return;
  planned = true;
  setTimeout(() => {
    if (document.hidden) run();
    else requestAnimationFrame(() => setTimeout(run));
  }, ms);
}

// Runs job() in one of the next slices, the newest first: the end of a conversation is seen first. A job
// that returns true is run again. It asks isLeft() and reports with spend().
export function later(job) {
  waiting.push(job);
  plan(SOON_MS);
}

// The same for a text that grows: a moment later, with what arrives until then.
export function laterGrowing(job) {
  setTimeout(() => later(job), REST_MS);
}
