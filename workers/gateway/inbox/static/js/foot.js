// The foot of a card: the answer buttons, the grant that an answer would create, and the progress of the answer.

import { approvalsLine, approveLabel, hasApproved, isAsker } from "./approvals.js";
import { boundsForm, boundsOf, ownPatterns } from "./bounds.js";
import { at } from "./clock.js";
import { button, h } from "./dom.js";
import { holdSeconds } from "./holding.js";
import { ANSWERS, LABELS, capital } from "./labels.js";
import { revealIn } from "./what.js";
import { outcomeKind, outcomeText } from "./outcomes.js";
import { answered, choices, planOf, questionsOf } from "./question.js";
import { reveal } from "./reveal.js";
import { firstChoice, rejectionTakesAlong, whatIsGranted } from "./why.js";

const NAME_CHARS = 24;

/** Return the words for an answer to a request. */
function verb(answer, row) {
  return row?.approvals && answer.reply !== "reject" ? LABELS.approve : ANSWERS[answer.reply];
}

export function foot(row, local, page, element) {
  switch (local?.phase) {
    case "held": return [heldStatus(local.answer, page, element.key)];
    case "sending": return [status(`Sending: ${verb(local.answer, row).toLowerCase()} …`, "busy")];
    case "unsure": return [status(`No connection: “${verb(local.answer, row).toLowerCase()}” may not have arrived. It will be sent again, and counts only once.`, "warn")];
    case "gone": return [status("No longer pending; loading the outcome …", "busy")];
    case "settled": return settled(local, page);
    default: return page.mayAnswer ? answering(row, local, page, element) : [status("Read-only: you need the approver role to answer.", "")];
  }
}

export function status(text, kind, ...more) {
  return h("p", { class: `status ${kind}`, role: "status" }, text, ...more);
}

/** Return the status of an answer that can still be taken back. */
export function heldStatus(answer, page, key, count = 1) {
  return status(`${verb(answer, page.rowOf(key))}${count > 1 ? ` (${count})` : ""}: sent within ${holdSeconds()} s. `, "busy", button("Undo", () => page.undo(key), { kind: "small", "aria-keyshortcuts": "u", data: { undo: "" } }));
}

function settled(local, page) {
  const result = local.result ?? {};
  const first = result.wasFirst ? `${result.by === page.me.name ? "You" : (result.by ?? "Somebody")} answered first. ` : "";
  const text = result.outcome ? `${first}${outcomeText(result, page.me.name)}` : "Settled";
  return [status(text, outcomeKind(result.outcome))];
}

function answering(row, local, page, element) {
  const key = element.key;
  const draft = page.draftOf(key);
  const problem = local?.phase === "failed" ? problemText(local, row, page) : null;
  const note = local?.note ? status(local.note, "warn", local.offer ? button(local.offer.text, local.offer.act, { kind: "small" }) : null) : null;
  if (draft.mode === "reject") return [problem, rejecting(row, draft, page, element)].filter(Boolean);
  if (draft.mode === "edit") return [problem, editing(row, draft, page, element)].filter(Boolean);
  if (row.approvals) return [problem, note, ...approving(row, page, element)].filter(Boolean);
  if (questionsOf(row).length) return [problem, note, ...answeringQuestions(row, draft, page, element)].filter(Boolean);
  const { choices: granted, reach } = whatIsGranted(row);
  const isPlan = planOf(row) !== null;
  const isOffered = granted.length > 0 && !isPlan;
  const chosen = granted[draft.choice ?? firstChoice(granted)] ?? granted[0];
  const say = (reply) => () => page.answer(key, { reply, ...(reply === "once" ? {} : boundsOf(draft, chosen)) });
  const mode = (name) => () => {
    draft.mode = name;
    element.refoot();
    element.querySelector("textarea")?.focus();
  };
  return [
    problem, note,
    isOffered ? granting(row, granted, chosen, { reach, draft, element }) : isPlan ? null : h("p", { class: "granting" }, `${capital(LABELS.only_once)}.`),
    row.answering === "lock-holder" ? h("p", { class: "granting" }, "In this session only the device that holds the input lock can answer.") : null,
    h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
      button(isPlan ? "Go ahead" : ANSWERS.once, say("once"), { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
      isOffered ? button(ANSWERS.session, say("session"), { kind: "more", "aria-keyshortcuts": "s", data: { answer: "session" } }) : null,
      isOffered ? button(alwaysLabel(row, page.releasedBy([row], chosen)), say("always"), { kind: "more", "aria-keyshortcuts": "a", data: { answer: "always" } }) : null,
      button(`${ANSWERS.reject}…`, mode("reject"), { kind: "reject", "aria-keyshortcuts": "r", data: { answer: "reject" } }),
      canEdit(row) && !isPlan ? button("Edit…", mode("edit"), { kind: "quiet", "aria-keyshortcuts": "e", data: { answer: "edit" } }) : null),
    lockNote(page, element),
  ].filter(Boolean);
}

/** Return the foot of a request that several people must approve: each of them only this call. */
function approving(row, page, element) {
  const key = element.key;
  const isDone = hasApproved(row, page.me);
  const reject = () => {
    page.draftOf(key).mode = "reject";
    element.refoot();
    element.querySelector("textarea")?.focus();
  };
  return [
    approvalsLine(row, page.me, element),
    isAsker(row, page.me) ? h("p", { class: "granting" }, "Your own yes does not count: it is your agent that asks.") : null,
    row.answering === "lock-holder" ? h("p", { class: "granting" }, "In this session only the device that holds the input lock can answer.") : null,
    h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
      isDone || isAsker(row, page.me) ? null : button(approveLabel(row), () => page.answer(key, { reply: "once" }), { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
      button(`${ANSWERS.reject}…`, reject, { kind: "reject", "aria-keyshortcuts": "r", data: { answer: "reject" } })),
    isDone ? null : lockNote(page, element),
  ];
}

/** Return the note below the buttons of a card with a fold: why they are disabled, and a button to the unread part. */
function lockNote(page, element) {
  if (!element.querySelector(".folded")) return null;
  const text = h("span", {});
  const show = button("Show the unread part", () => page.showUnread(element), { kind: "small" });
  element.showLock = (isRead) => {
    if (show.hidden === isRead && text.textContent) return;
    text.textContent = isRead ? "All of it was shown." : "To allow this, scroll through all of it first.";
    show.hidden = isRead;
  };
  return h("p", { class: "lock-note" }, text, show);
}

/** The chosen options are the answer, sent back in the input. */
function answeringQuestions(row, draft, page, element) {
  const missing = h("p", { class: "status bad", role: "alert" });
  const submit = () => {
    const input = answered(row, draft);
    if (input === null) { missing.textContent = "Choose an answer to each question first, or write one."; return; }
    page.answer(element.key, { reply: "once", updated_input: input });
  };
  return [
    h("div", { class: "form" }, ...choices(row, draft, element)), missing,
    h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
      button("Answer", submit, { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
      button(`${ANSWERS.reject}…`, () => { draft.mode = "reject"; element.refoot(); element.querySelector("textarea")?.focus(); }, { kind: "reject", "aria-keyshortcuts": "r", data: { answer: "reject" } })),
    lockNote(page, element),
  ];
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

/** Return the text of *always*; `count` is how many other requests it is known to release. */
export function alwaysLabel(row, count = 0) {
  if (row.always_scope !== "project") return `${ANSWERS.always} in this session`;
  const more = count ? `: releases ${count} more` : "";
  return row.project.length > NAME_CHARS ? `${ANSWERS.always} in this project${more}` : [`${ANSWERS.always} in `, h("i", {}, ...reveal(row.project)), more];
}

function listed(row, patterns) {
  return patterns.flatMap((pattern, index) => [index ? ", " : null, h("code", {}, ...revealIn(row, pattern))]);
}

function rejecting(row, draft, page, element) {
  const others = rejectionTakesAlong(row, page.waiting());
  const submit = button("", () => page.answer(element.key, { reply: "reject", message: draft.text.trim() || null }), { kind: "reject", data: { answer: "send-reject" } });
  const effect = h("p", { class: "granting" });
  const text = h("textarea", { rows: "2", maxlength: "4000", "aria-label": "What the agent should do instead (optional)", placeholder: "What should the agent do instead? (optional)", value: draft.text });
  const show = () => {
    const hasWords = draft.text.trim() !== "";
    submit.textContent = hasWords ? "Reject with instructions" : "Reject and stop";
    const heard = row.metadata?.hears_no_words === true ? "The agent will not see these instructions: its protocol cannot carry them. The log keeps them." : "The agent reads this and continues.";
    effect.textContent = `${hasWords ? heard : "Without instructions the agent stops."}${others ? ` It also rejects ${others} other pending request${others === 1 ? "" : "s"} of this session.` : ""}`;
  };
  text.addEventListener("input", () => { draft.text = text.value; show(); });
  show();
  return h("div", { class: "form" }, text, effect, h("div", { class: "buttons" }, submit, back(draft, element)));
}

function editing(row, draft, page, element) {
  const command = typeof row.input.command === "string";
  draft.edited ??= command ? row.input.command : JSON.stringify(row.input, null, 2);
  const wrong = h("p", { class: "status bad", role: "alert" });
  const text = h("textarea", { rows: Math.min(12, draft.edited.split("\n").length + 1), spellcheck: "false", class: "code-edit", "aria-label": command ? "The command to run instead" : "The input to run with instead, as JSON", value: draft.edited });
  text.addEventListener("input", () => { draft.edited = text.value; });
  const submit = button("Run this instead, once", () => {
    const input = command ? { ...row.input, command: text.value } : parsed(text.value);
    if (input === null) { wrong.textContent = "This is not a JSON object; nothing was sent."; return; }
    page.answer(element.key, { reply: "once", updated_input: input });
  }, { kind: "once", data: { answer: "send-edit" } });
  return h("div", { class: "form" }, text, wrong, h("p", { class: "granting" }, "The edited call may run once, unless a rule denies it."), h("div", { class: "buttons" }, submit, back(draft, element)));
}

function back(draft, element) {
  return button("Back", () => { draft.mode = null; element.refoot(); element.focus({ preventScroll: true }); }, { kind: "quiet", data: { answer: "back" } });
}

function canEdit(row) {
  return Boolean(row.tool_name) && row.input !== null && typeof row.input === "object" && !Array.isArray(row.input) && Object.keys(row.input).length > 0;
}

function parsed(text) {
  try {
    const value = JSON.parse(text);
    return value && typeof value === "object" && !Array.isArray(value) ? value : null;
  } catch {
    return null;
  }
}

function problemText({ problem, holder }, row, page) {
  if (problem.code === "NO_INPUT_LOCK") return lockedText(holder, row, page);
  const said = { DIGEST_MISMATCH: "The request has changed since it was shown; nothing was sent. Read it again.", FORBIDDEN: `You may not answer this: ${problem.message}.`, UNAUTHORIZED: "You are signed out; nothing was sent." }[problem.code];
  return status(said ?? `Not sent: ${problem.message}.`, "bad");
}

/** Return the refusal for lack of the input lock: its holder, and a button to request it. */
function lockedText(holder, row, page) {
  if (holder === null) return status("Nothing was sent: in this session only the device that holds its input lock may answer, and nobody holds it now. ", "bad", button("Take the lock", () => page.takeLock(row), { kind: "small" }));
  const who = holder ? `${holder.name === page.me.name ? "another device of yours" : holder.name} holds it since ${at(holder.since)}` : "another device holds it";
  return status(`Nothing was sent: in this session only the device that holds its input lock may answer, and ${who}. `, "bad", button("Ask for the lock", () => page.takeLock(row), { kind: "small" }));
}
