// What will run, as a person can judge it: the gateway's description of a request, drawn whole.

import { dangers, oddNote } from "./dangers.js";
import { h } from "./dom.js";
import { reveal, revealMarked } from "./reveal.js";
import { drawSections } from "./sections.js";

const STRICTNESS = { allow: 0, ask: 1, deny: 2 };

/** Nodes that show the request, whole: its dangers first; long texts are folded with a word on how much is folded. */
export function whatRuns(row) {
  return [dangers(row.description), oddNote(row.description), ...drawSections(row, (text) => painted(row, text)), parts(row)];
}

/** One line for lists and announcements, as the ledger tells it; it says where it was cut. */
export function inOneLine(row) {
  return row.would_run.replaceAll(/\s+/g, " ");
}

/** A text of a request, as nodes, with the marks that its description has for it. */
export function revealIn(row, text) {
  return revealMarked(text, row.description?.sections.find((one) => one.text === text)?.marks);
}

/** How each part of a command was judged. Its text stands above, whole: this fold holds back nothing. */
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

/** Classes by position for the parts of a command that were judged; the innermost part counts, so outer ones come first. */
function painted(row, command) {
  const found = row.evaluation?.parts ?? [];
  // Where all of it is one part, a mark on everything marks nothing.
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

/** Where a part begins: not in the middle of a word, such as `sh` in `install.sh`. */
function placeOf(text, command, from) {
  let start = text ? command.indexOf(text, from) : -1;
  while (start > 0 && /[\w./-]/.test(command[start - 1])) start = command.indexOf(text, start + 1);
  return start;
}
