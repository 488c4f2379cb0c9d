// The bounds of what an answer remembers: for how long, for how many calls, and which patterns.

import { button, h } from "./dom.js";

const TIMES = [["", "until revoked"], ["15m", "for 15 minutes"], ["1h", "for 1 hour"], ["8h", "for 8 hours"], ["7d", "for 7 days"]];
const USES = [["", "any number of calls"], ["1", "1 more call"], ["5", "5 more calls"], ["20", "20 more calls"]];

/** Return the members of an answer that remembers the chosen patterns within the drafted bounds. */
export function boundsOf(draft, chosen) {
  const own = draft.patterns === undefined ? null : draft.patterns.split("\n").map((one) => one.trim()).filter(Boolean);
  return {
    patterns: own?.length ? own : chosen.isSuggested ? null : chosen.patterns,
    expires: draft.expires || null,
    uses: Number(draft.uses) || null,
  };
}

/** Return the controls of the bounds; the patterns become a text on request. */
export function boundsForm(draft, chosen, element) {
  const edit = () => {
    draft.patterns = chosen.patterns.join("\n");
    element.refoot();
    element.querySelector(".own-patterns")?.focus();
  };
  return h("div", { class: "bounds" },
    select("How long it is remembered", TIMES, draft.expires, (value) => { draft.expires = value; }),
    select("For how many calls", USES, draft.uses, (value) => { draft.uses = value; }),
    draft.patterns === undefined
      ? button("Edit patterns…", edit, { kind: "quiet small" })
      : button("As offered", () => { delete draft.patterns; element.refoot(); }, { kind: "quiet small" }));
}

/** Return the text of a person's own patterns, one a line. */
export function ownPatterns(draft) {
  const text = h("textarea", { class: "own-patterns code-edit", rows: Math.min(6, draft.patterns.split("\n").length + 1), spellcheck: "false", "aria-label": "Patterns to remember, one a line", value: draft.patterns });
  text.addEventListener("input", () => { draft.patterns = text.value; });
  return text;
}

function select(label, values, present, choose) {
  const options = values.map(([value, name]) => h("option", { value, selected: value === (present ?? "") }, name));
  const field = h("select", { "aria-label": label }, ...options);
  field.addEventListener("change", () => choose(field.value));
  return field;
}
