// SPDX-License-Identifier: Apache-2.0
// blocks.js - divides Markdown into blocks that can be rendered one by one.
//
// A block ends after a blank line or code, before a line that cannot continue a list; and where it would
// cost too much. Units are what a block costs: its characters, and something for every line and cell.
export const MOST_UNITS_OF_BLOCK = 6000;
export const LONGEST_LINE = 4000; // a longer one is shown as plain text
const UNITS_OF_LINE = 24;
const UNITS_OF_CELL = 8;
const READ = 400; // enough of a line to see what it is
const LONGEST_HEAD = 1000; // a longer head of a table is not repeated

const FENCE = /^( {0,3})(`{3,}|~{3,})(.*)/;
const LIST = /^ {0,3}(?:[-*+]|\d{1,9}[.)])\s/;
const TABLE = /^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$/;
const BLANK_LINES = /(?:[ \t]*\r?\n)+/y;

// Index behind the line at i, with its line end.
export function lineEnd(text, i) {
  const end = text.indexOf("\n", i);
  return end < 0 ? text.length : end + 1;
}

function pipes(text, from, to) {
  let n = 0;
  for (let i = text.indexOf("|", from); i >= 0 && i < to; i = text.indexOf("|", i + 1)) n++;
  return n;
}

// {mark, language} if the line opens code; null: it does not.
export function fenceOf(line) {
  const match = FENCE.exec(line);
  if (!match || (match[2][0] === "`" && match[3].includes("`"))) return null;
  return {mark: match[2], language: match[3].trim().split(/\s+/)[0].toLowerCase()};
}

export function closesFence(line, mark) {
  const match = FENCE.exec(line);
  return Boolean(match) && match[2].startsWith(mark) && match[3].trim() === "";
}

export function skipBlankLines(text, from) {
  BLANK_LINES.lastIndex = from;
  return BLANK_LINES.test(text) ? BLANK_LINES.lastIndex : from;
}

export function unitsOf(text) {
  let lines = 1;
  for (let i = text.indexOf("\n"); i >= 0; i = text.indexOf("\n", i + 1)) lines++;
  return text.length + UNITS_OF_LINE * lines;
}

// What is known of a block from its lines so far.
class Lines {
  constructor() {
    this.units = 0;
    this.fence = null;
    this.list = false;
    this.free = false; // the next line may begin a block
    this.before = null; // start and end of the line before
    this.columns = 0;
    this.head = ""; // of a table
  }

  // Units of a line.
  cost(n) {
    return n + UNITS_OF_LINE + UNITS_OF_CELL * this.columns;
  }

  // Does this line begin a block?
  begins(line, opens) {
    if (this.fence) return false;
    if (opens && !(this.list && line[0] === " ")) return true;
    const item = LIST.test(line);
    if (this.free && !/^\s/.test(line) && !(this.list && item)) return true;
    return this.list && item && line[0] !== " " && this.units > MOST_UNITS_OF_BLOCK / 2;
  }

  // What must precede the rest of a block that is divided here, for it to stay code or a table.
  prefix() {
    return this.fence ? `${this.fence.mark}${this.fence.language}\n` : this.head;
  }

  add(text, i, end, line, opens) {
    const blank = line.trim() === "";
    if (this.fence) {
      if (closesFence(line, this.fence.mark)) {
        this.fence = null;
        this.free = !this.list;
      }
    } else if (opens) {
      this.fence = opens;
      this.free = false;
    } else {
      this.free = blank;
      this.list = this.list || LIST.test(line);
      this.readTable(text, i, end, line, blank);
    }
    this.before = [i, end];
    this.units += this.cost(end - i);
  }

  readTable(text, i, end, line, blank) {
    if (blank) {
      this.columns = 0;
      this.head = "";
    } else if (this.columns === 0 && this.before && end - i < LONGEST_LINE && line.includes("-")
        && TABLE.test(text.slice(i, end).trimEnd()) && text.slice(...this.before).includes("|")) {
      this.columns = pipes(text, i, end);
      this.head = end - this.before[0] > LONGEST_HEAD ? "" : text.slice(this.before[0], end);
    }
  }
}

// The block at `from`, which is not a blank line: {end, complete, prefix}. A block that is not complete may
// still grow. `prefix` belongs before the next block.
export function nextBlock(text, from, prefix = "") {
  const lines = new Lines();
  if (prefix) addAll(lines, prefix);
  for (let i = from; i < text.length;) {
    const end = lineEnd(text, i);
    const line = text.slice(i, Math.min(end, i + READ)).replace(/\r?\n$/, "");
    const opens = fenceOf(line);
    if (i > from) {
      if (line.trim() !== "" && lines.begins(line, opens)) return {end: i, complete: true, prefix: ""};
      if (lines.units + lines.cost(end - i) > MOST_UNITS_OF_BLOCK) return {end: i, complete: true, prefix: lines.prefix()};
    }
    lines.add(text, i, end, line, lines.fence ? null : opens);
    i = end;
  }
  return {end: text.length, complete: false, prefix: ""};
}

function addAll(lines, text) {
  for (let i = 0; i < text.length;) {
    const end = lineEnd(text, i);
    const line = text.slice(i, end - 1);
    lines.add(text, i, end, line, lines.fence ? null : fenceOf(line));
    i = end;
  }
}
