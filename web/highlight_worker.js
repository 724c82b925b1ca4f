// SPDX-License-Identifier: Apache-2.0
// highlight_worker.js - highlights code in a thread of its own: some texts take seconds.
//
// {id, code, language} in, {id, parts} out: the HTML of each part of partEnds(), null for a language that is
// not known.
import {partEnds} from "./code_parts.js";
import hljs from "./vendor/highlight.js";

// Elements that are open at the end of a part are closed there and opened again in the next one.
function divided(html, code) {
  const parts = [];
  let open = [];
  let at = 0;
  let from = 0;
  for (const end of partEnds(code)) {
    let lines = code.slice(from, end).split("\n").length - 1;
    let part = open.join("");
    const mark = /<span class="[^"]*">|<\/span>|\n/g;
    let stop = html.length;
    mark.lastIndex = at;
    for (let match = mark.exec(html); match; match = mark.exec(html)) {
      if (match[0] === "</span>") open = open.slice(0, -1);
      else if (match[0] !== "\n") open = [...open, match[0]];
      else if (--lines === 0 && end < code.length) {
        stop = mark.lastIndex;
        break;
      }
    }
    part += html.slice(at, stop) + "</span>".repeat(stop < html.length ? open.length : 0);
    parts.push(part);
    at = stop;
    from = end;
  }
  return parts;
}

self.addEventListener("message", ({data: {id, code, language}}) => {
  const known = hljs.getLanguage(language);
  const html = known ? hljs.highlight(code, {language, ignoreIllegals: true}).value : null;
  self.postMessage({id, parts: html === null ? null : divided(html, code)});
});
