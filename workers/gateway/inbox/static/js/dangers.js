// The dangers of a request, shown first: facts about its text, the gravest first.

import { h } from "./dom.js";
import { DANGERS } from "./labels.js";
import { reveal, revealMarked } from "./reveal.js";

export function dangers({ dangers: found = [] }) {
  if (!found.length) return null;
  const kinds = [...new Set(found.map(({ kind }) => kind))];
  return h("div", { class: "dangers" }, ...kinds.map((kind) => h("p", { class: `danger ${kind}` },
    h("strong", { class: "chip" }, DANGERS[kind] ?? kind),
    h("span", {}, ...found.filter((one) => one.kind === kind).flatMap(({ says }, index) => [index ? "; " : "", ...inWords(says)])))));
}

/** Return a sentence on misleading characters, or null. */
export function oddNote({ odd = [], odd_left: left = 0 }) {
  if (!odd.length) return null;
  const named = odd.slice(0, 4).map(({ char, code, name, kind, like }) => [kind === "look-alike" ? [h("code", {}, ...revealMarked(char)), " "] : null, `${code} ${name}`, like ? ` (not ${like})` : ""]);
  const more = odd.length - named.length + left;
  return h("p", { class: "warning odd-note" }, h("strong", {}, "Look closely. "), "It contains misleading characters: ",
    ...named.flatMap((one, index) => [index ? ", " : null, one]), more ? ` and ${more} more` : "", ".");
}

/** Return a sentence of the ledger as nodes; backticks quote text of others. */
export function inWords(text) {
  const pieces = text.split("`");
  if (pieces.length % 2 === 0) return reveal(text);
  return pieces.map((piece, index) => (index % 2 ? h("code", {}, ...reveal(piece)) : reveal(piece)));
}
