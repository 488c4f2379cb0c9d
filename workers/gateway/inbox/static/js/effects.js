// How far a call can be taken back: a fact of its evaluation. Absent or unknown counts as the worst.

import { h } from "./dom.js";
import { DANGERS, EFFECTS } from "./labels.js";

/** The signs of the classes, the worst first. */
const SIGNS = { irreversible: "!", changes_elsewhere: "↗", changes_here: "✎", reads: "○" };
const NAMES = Object.keys(SIGNS);
const GRAVE = new Set(["runs-downloaded", "privileges", "deletes", "secrets"]);

/** Return the name of the class of a request. */
export function effectOf(row) {
  const found = row.effect ?? row.evaluation?.effect;
  return NAMES.includes(found) ? found : NAMES[0];
}

/** Return 0 for a grave danger, 1 for another, 2 for none; `kinds` are the kinds of a request's dangers. */
function dangerRank(kinds) {
  if (kinds.some((kind) => GRAVE.has(kind))) return 0;
  return kinds.length ? 1 : 2;
}

/** Compare two requests: what cannot be undone first, then what is dangerous. */
export function byEffect(a, b) {
  return NAMES.indexOf(effectOf(a)) - NAMES.indexOf(effectOf(b)) || dangerRank(dangerKinds(a)) - dangerRank(dangerKinds(b));
}

/** Return the kinds of a request's dangers, the gravest first. */
export function dangerKinds(row) {
  return row.dangers ?? [];
}

/** Return the sign of a request's class, with its words for those who do not see it. */
export function effectSign(row) {
  const name = effectOf(row);
  return h("span", { class: `effect ${name}`, title: EFFECTS[name] }, h("span", { class: "sign", "aria-hidden": "true" }, SIGNS[name]), h("span", { class: "word" }, EFFECTS[name]));
}

/** Return the word of a request's gravest danger, or null for one without a grave danger. */
export function graveWord(row) {
  const kind = dangerKinds(row).find((one) => GRAVE.has(one));
  return kind ? h("strong", { class: "grave" }, DANGERS[kind] ?? kind) : null;
}

/** Return how far a request can be taken back, as a fact among others. */
export function effectText(row) {
  return h("div", {}, h("span", { class: "key" }, "Effect"), h("span", {}, EFFECTS[effectOf(row)]));
}
