// The form behind *Remember…*: what an answer by *session* or *always* would grant, for how long, and what else that would
// let through.

import { boundsForm, boundsOf, ownPatterns } from "./bounds.js";
import { waitingIn } from "./cards.js";
import { button, h } from "./dom.js";
import { explained } from "./explaining.js";
import { back } from "./foot.js";
import { ANSWERS, LABELS, capital } from "./labels.js";
import { reveal } from "./reveal.js";
import { revealIn } from "./what.js";
import { firstChoice, releasedBy, whatIsGranted } from "./why.js";

const NAME_CHARS = 24;

export function remembering(row, draft, page, element) {
  const { choices, reach } = whatIsGranted(row);
  const chosen = choices[draft.choice ?? firstChoice(choices)] ?? choices[0];
  const say = (reply) => () => page.answer(element.key, { reply, ...boundsOf(draft, chosen) });
  return h("div", { class: "form" },
    granting(row, choices, chosen, { reach, draft, element }),
    explained(row, chosen, page, element),
    h("div", { class: "buttons", role: "group", "aria-label": "Remember" },
      button(ANSWERS.session, say("session"), { kind: "more", "aria-keyshortcuts": "s", data: { answer: "session" } }),
      alwaysButton([row], chosen, say("always"), page, element),
      back(draft, element)));
}

/** Return the exact scope of a grant by *session* or *always*: the choices, and the present one. */
export function granting(row, granted, chosen, { reach, where = "in this session", draft, element }) {
  const name = `reach-${element.key}`;
  const choice = (one, index) => h("label", { class: one.wide ? "wide" : null },
    h("input", { type: "radio", name, checked: one === chosen, onchange: () => { draft.choice = index; element.refoot(); element.querySelector(`input[name="${CSS.escape(name)}"]:checked`)?.focus(); } }), ` ${one.label}`);
  return h("div", { class: `granting${chosen.wide ? " wide" : ""}` },
    granted.length < 2 ? null : h("fieldset", { class: "reach" }, h("legend", { class: "spoken" }, "Scope of the grant"), h("span", { "aria-hidden": "true" }, "Scope"), ...granted.map(choice)),
    draft.patterns === undefined ? h("p", {}, "A grant also allows ", ...(chosen.name ? revealIn(row, chosen.name) : listed(row, chosen.patterns)), ...(chosen.name ? [] : [" for ", ...revealIn(row, row.permission)]),
      reach === "this session" ? `, ${where}.` : [`: ${where}, or in all of `, ...reveal(reach), "."]) : ownPatterns(draft),
    boundsForm(draft, chosen, element),
    chosen.still.length ? h("p", { class: "warning still-asked" }, `${capital(LABELS.still_asks)}: `, ...reveal(chosen.still.join("; ")), ".") : null,
    chosen.wide ? h("p", { class: "warning wide" }, "This is broad: it allows much more than this call.") : null);
}

/** Return the button of *always*, with how many other requests it is known to release once these are there. */
export function alwaysButton(rows, chosen, act, page, element) {
  const [first] = rows;
  const shown = button(alwaysLabel(first), act, { kind: "more", "aria-keyshortcuts": "a", data: { answer: "always" } });
  if (first.always_scope === "project") waitingIn([first.project]).then((others) => {
    const count = releasedBy(rows, chosen, others);
    if (!count || !shown.isConnected) return;
    shown.replaceChildren(...[alwaysLabel(first, count)].flat());
    page.screen?.changeFoot(element);
  });
  return shown;
}

/** Return the text of *always*; `count` is how many other requests it is known to release. */
function alwaysLabel(row, count = 0) {
  if (row.always_scope !== "project") return `${ANSWERS.always} in this session`;
  const more = count ? `: releases ${count} more` : "";
  return row.project.length > NAME_CHARS ? `${ANSWERS.always} in this project${more}` : [`${ANSWERS.always} in `, h("i", {}, ...reveal(row.project)), more];
}

function listed(row, patterns) {
  return patterns.flatMap((pattern, index) => [index ? ", " : null, h("code", {}, ...revealIn(row, pattern))]);
}
