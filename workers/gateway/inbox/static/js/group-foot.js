// The foot of a group: one answer to all requests that are drawn in it, and what became of each.

import { boundsOf } from "./bounds.js";
import { button, h } from "./dom.js";
import { back, heldStatus, rejectButton, rememberButton, status } from "./foot.js";
import { ANSWERS } from "./labels.js";
import { alwaysButton, granting } from "./remembering.js";
import { reveal } from "./reveal.js";
import { keyOf } from "./store.js";
import { firstChoice, rejectionTakesAlong, whatIsGranted } from "./why.js";

export function groupFoot(key, group, page, element) {
  const waiting = page.members.waiting(key);
  const phase = page.members.phase(key);
  const results = summary(key, page);
  if (phase === "held") return [heldStatus(page.members.underWay(key).answer, page, key, waiting.length), results].filter(Boolean);
  if (phase === "sending") return [status(`Sending: ${ANSWERS[page.members.underWay(key).answer.reply].toLowerCase()} …`, "busy"), results].filter(Boolean);
  if (!waiting.length) return [results].filter(Boolean);
  if (!page.mayAnswer) return [status("Read-only: you need the approver role to answer.", "")];
  const later = group.later > 0 ? h("p", { class: "status warn later" }, `${group.later} more like ${waiting.length > 1 ? "these" : "it"} ${group.later > 1 ? "are" : "is"} not in this group. `, button(group.later > 1 ? "Add them" : "Add it", () => page.gather(group.likeness), { kind: "small" })) : null;
  const draft = page.draftOf(key);
  if (draft.mode === "reject") return [results, rejecting(key, waiting, draft, page, element)].filter(Boolean);
  const whole = waiting.map((row) => element.rows.get(keyOf(row))).filter(Boolean);
  return [results, ...answering(key, whole, draft, page, element), later].filter(Boolean);
}

/** Return how the requests ended: `allowed 7, 1 was answered by somebody else`. */
function summary(key, page) {
  const told = page.members.tally(key);
  return told ? status(told.text, told.isGood ? "good" : "warn", told.others.length ? h("small", {}, " ", ...reveal(told.others.join(", "))) : null) : null;
}

function answering(key, rows, draft, page, element) {
  const [first] = rows;
  const choices = inCommon(rows);
  const chosen = choices[draft.choice ?? firstChoice(choices)] ?? choices[0];
  const { reach } = whatIsGranted(first);
  const say = (reply) => () => page.answer(key, { reply, ...(reply === "once" ? {} : boundsOf(draft, chosen)) });
  const many = rows.length > 1 ? ` ${rows.length}` : "";
  if (draft.mode === "remember" && choices.length) return [h("div", { class: "form" },
    granting(first, choices, chosen, { reach, where: rows.length > 1 ? "in each session" : "in this session", draft, element }),
    h("div", { class: "buttons", role: "group", "aria-label": "Remember" },
      button(`Allow${many} in ${rows.length > 1 ? "their sessions" : "this session"}`, say("session"), { kind: "more", "aria-keyshortcuts": "s", data: { answer: "session" } }),
      alwaysButton(rows, chosen, say("always"), page, element),
      back(draft, element)))];
  return [h("div", { class: "buttons", role: "group", "aria-label": "Answer all" },
    button(`Allow${many} once`, say("once"), { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
    choices.length ? rememberButton(`Remember${many}`, page, element) : null,
    rejectButton(`Reject${many}`, page, element))];
}

/** Return the choices of a grant that all of these requests offer, as the first one does. */
function inCommon(rows) {
  const [own, ...others] = rows.map((row) => whatIsGranted(row).choices);
  const name = (one) => JSON.stringify([[...one.patterns].sort(), one.isSuggested]);
  return own.filter((one) => others.every((choices) => choices.some((other) => name(other) === name(one))));
}

function rejecting(key, rows, draft, page, element) {
  const sessions = new Set(rows.map((row) => row.session));
  const own = new Set(rows);
  const along = [...sessions].map((session) => rows.find((row) => row.session === session)).reduce((count, row) => count + rejectionTakesAlong(row, page.waiting().filter((one) => !own.has(one))), 0);
  const submit = button("", () => page.answer(key, { reply: "reject", message: draft.text.trim() || null }), { kind: "reject", data: { answer: "send-reject" } });
  const effect = h("p", { class: "granting" });
  const text = h("textarea", { rows: "2", maxlength: "4000", "aria-label": "What the agents should do instead (optional)", placeholder: "What should the agents do instead? (optional)", value: draft.text });
  const show = () => {
    const hasWords = draft.text.trim() !== "";
    submit.textContent = hasWords ? `Reject ${rows.length} with instructions` : `Reject ${rows.length} and stop`;
    effect.textContent = `${hasWords ? "The agents read this and continue." : "Without instructions the agents stop."}${along ? ` It also rejects ${along} other pending request${along === 1 ? "" : "s"} of their sessions.` : ""}`;
  };
  text.addEventListener("input", () => { draft.text = text.value; show(); });
  show();
  return h("div", { class: "form" }, text, effect, h("div", { class: "buttons" }, submit, back(draft, element)));
}
