// The call of a request: the gateway's description of it, drawn whole.

import { dangers, oddNote } from "./dangers.js";
import { h } from "./dom.js";
import { reveal, revealMarked } from "./reveal.js";
import { drawSections } from "./sections.js";

const STRICTNESS = { allow: 0, ask: 1, deny: 2 };

/** Return nodes of the whole request, its dangers first; long texts are folded, with their size. */
export function whatRuns(row) {
  return [dangers(row.description), oddNote(row.description), ...drawSections(row, (text) => painted(row, text)), parts(row)];
}

/** Return the call in the ledger's words, on one line, for announcements and texts; they mark a cut. */
export function inOneLine(row) {
  return row.would_run;
}

/** Return the same as nodes for a row, after the permission unless the words begin with it. */
export function callInRow(row) {
  return [row.names_tool ? null : [h("span", { class: "permission" }, ...reveal(row.permission)), " "], h("code", {}, ...reveal(row.would_run))];
}

/** Return a text of a request as nodes, with the marks from its description. */
export function revealIn(row, text) {
  return revealMarked(text, row.description?.sections.find((one) => one.text === text)?.marks);
}

/** Return the verdict of each part of a command. The whole text stands above, so this fold hides nothing. */
function parts(row) {
  const found = row.evaluation?.parts ?? [];
  if (found.length < 2) return null;
  const waiting = found.filter((part) => part.verdict !== "allow").length;
  return h("details", { class: "parts" },
    h("summary", {}, `${waiting} of ${found.length} commands need your approval`),
    h("ul", {}, ...found.map((part) => h("li", { class: part.verdict },
      h("span", { class: `verdict ${part.verdict}` }, { allow: "allowed", ask: "asks", deny: "denied" }[part.verdict]),
      h("code", {}, ...reveal(part.text)),
      part.inside ? h("small", {}, " inside ", h("code", {}, ...reveal(part.inside))) : null,
      part.rules?.length ? h("small", {}, " by ", h("code", {}, ...reveal(part.rules[0].text))) : null))));
}

/** Return classes by position for the judged parts of a command. Inner parts win, so outer ones are set first. */
function painted(row, command) {
  const found = row.evaluation?.parts ?? [];
  // A single part needs no mark.
  if (found.length === 1 && found[0].text.trim() === command.trim()) return [];
  const classes = new Array(command.length);
  const places = [];
  let cursor = 0;
  for (const part of found) {
    const start = placeOf(part.text, command, part.inside ? 0 : cursor);
    if (start < 0) continue;
    if (!part.inside) cursor = start + part.text.length;
    places.push([start, start + part.text.length, part.verdict]);
  }
  places.sort((a, b) => b[1] - b[0] - (a[1] - a[0]) || STRICTNESS[a[2]] - STRICTNESS[b[2]]);
  for (const [start, end, verdict] of places) classes.fill(`part ${verdict}`, start, end);
  return classes;
}

/** Return the start of a part, outside of longer words: not the `sh` of `install.sh`. */
function placeOf(text, command, from) {
  let start = text ? command.indexOf(text, from) : -1;
  while (start > 0 && /[\w./-]/.test(command[start - 1])) start = command.indexOf(text, start + 1);
  return start;
}
