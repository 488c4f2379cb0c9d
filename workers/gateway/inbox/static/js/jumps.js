// Places to jump to in a long file or diff: its functions, headings and changed parts. A jump shows nothing as read.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";

const LONG_LINES = 120;
const PLACES_MOST = 60;
const NAME_CHARS = 70;
const NAMED = /^\s*(?:(?:export|default|public|private|protected|static|async|pub|abstract)\s+)*(?:def|class|function|fn|func|interface|struct|enum|impl|trait|module)\b.*\w|^#{1,6}\s+\S|^\[[\w."' -]+\]\s*$/;

/** Return an element of lines with a list of places before it; the element alone if it is short or has no places. */
export function withJumps(element, lines) {
  const found = lines.length < LONG_LINES ? [] : placesIn(lines);
  if (found.length < 2) return element;
  const jump = ({ index, text }) => h("li", {}, h("button", { type: "button", class: "jump", onclick: () => element.children[index]?.scrollIntoView({ block: "start" }) },
    h("span", { class: "number" }, `${index + 1} `), h("code", {}, ...reveal(text.trim().slice(0, NAME_CHARS)))));
  const more = found.length > PLACES_MOST ? h("li", { class: "hint" }, `and ${found.length - PLACES_MOST} more`) : null;
  return h("div", {}, h("details", { class: "jumps" }, h("summary", {}, `Jump to one of ${found.length} parts`), h("ol", {}, ...found.slice(0, PLACES_MOST).map(jump), more)), element);
}

/** Return the places of a text: of a whole file its named parts, of a diff the beginnings of what changes. */
function placesIn(lines) {
  const isDiff = lines.some(({ kind }) => kind === "same") && lines.some(({ kind }) => kind !== "same");
  if (!isDiff) return lines.flatMap((line, index) => (NAMED.test(line.text) ? [{ index, text: line.text }] : []));
  let name = null;
  return lines.flatMap((line, index) => {
    if (NAMED.test(line.text)) name = line.text;
    const begins = line.kind !== "same" && (index === 0 || lines[index - 1].kind === "same");
    return begins ? [{ index, text: name ?? line.text }] : [];
  });
}
