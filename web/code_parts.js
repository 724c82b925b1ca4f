// SPDX-License-Identifier: Apache-2.0
// code_parts.js - where code is divided: the page shows, and the highlighter returns, one part at a time.
const LINES_OF_PART = 40;
const LONGEST_PART = 3000;

// Ends of the parts from `from` on, which is the start of a part. Each but the last is at a line end, and
// depends on complete lines only: parts of code that grows keep their ends.
export function partEnds(code, from = 0) {
  const ends = [];
  let begin = from;
  let lines = 0;
  for (let i = from; i < code.length;) {
    if (lines === LINES_OF_PART || i - begin >= LONGEST_PART) {
      ends.push(i);
      begin = i;
      lines = 0;
    }
    lines++;
    i = code.indexOf("\n", i) + 1 || code.length;
  }
  if (code.length > begin) ends.push(code.length);
  return ends;
}
