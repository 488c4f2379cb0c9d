// The foot of a card: the answer buttons, their forms, and the progress of the answer.

import { approvalsLine, approveLabel, hasApproved, isAsker } from "./approvals.js";
import { at } from "./clock.js";
import { button, h } from "./dom.js";
import { holdSeconds } from "./holding.js";
import { ANSWERS, LABELS } from "./labels.js";
import { outcomeKind, outcomeText } from "./outcomes.js";
import { answered, asked, choices, planOf, questionsOf } from "./question.js";
import { remembering } from "./remembering.js";
import { rejectionTakesAlong, whatIsGranted } from "./why.js";

/** Return the words for an answer to a request. */
function verb(answer, row) {
  return row?.approvals && answer.reply !== "reject" ? LABELS.approve : ANSWERS[answer.reply];
}

/** Return what stands below the call; the questions of an agent stand here, whatever else does. */
export function foot(row, local, page, element) {
  const shown = answersOrProgress(row, local, page, element);
  if (!questionsOf(row).length || shown.some((one) => one.matches(".choosing"))) return shown;
  const isOwn = ["held", "sending", "unsure"].includes(local?.phase) || (local?.phase === "settled" && local.result?.by === page.me.name && !local.result.wasFirst);
  return [h("div", { class: "form" }, ...asked(row, element, isOwn ? local.answer?.updated_input?.answers : null)), ...shown];
}

function answersOrProgress(row, local, page, element) {
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

/** Return the status of an answer that can still be taken back; one to more than this card is taken back in the bar. */
export function heldStatus(answer, page, key, count = 1) {
  const isPart = page.members.underWay(key).hold.rows.length > page.members.of(key).length;
  const undo = isPart ? null : button("Undo", () => page.undo(key), { kind: "small", "aria-keyshortcuts": "u", data: { undo: "" } });
  return status(`${verb(answer, page.rowOf(key))}${count > 1 ? ` (${count})` : ""}: sent within ${holdSeconds()} s. `, "busy", ...(undo ? [undo] : []));
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
  const form = { reject: rejecting, edit: editing, remember: remembering }[draft.mode];
  if (form) return [problem, form(row, draft, page, element)].filter(Boolean);
  const lockHolder = row.answering === "lock-holder" ? h("p", { class: "granting" }, "In this session only the device that holds the input lock can answer.") : null;
  const inner = row.approvals ? approving(row, lockHolder, page, element) : questionsOf(row).length ? answeringQuestions(row, draft, page, element) : [lockHolder, allowing(row, page, element)];
  return [problem, note, ...inner, hasApproved(row, page.me) ? null : lockNote(page, element)].filter(Boolean);
}

/** Return the button that opens a form of the foot. */
function modeButton(text, mode, members, page, element) {
  const open = () => {
    page.draftOf(element.key).mode = mode;
    element.refoot();
    element.querySelector(".form > textarea")?.focus();
  };
  return button(`${text}…`, open, { "aria-keyshortcuts": members.key, kind: members.kind, data: { answer: mode } });
}

export function rejectButton(text, page, element) {
  return modeButton(text, "reject", { kind: "reject", key: "r" }, page, element);
}

export function rememberButton(text, page, element) {
  return modeButton(text, "remember", { kind: "more", key: "s a" }, page, element);
}

function allowing(row, page, element) {
  const isPlan = planOf(row) !== null;
  const isRemembered = whatIsGranted(row).choices.length > 0 && !isPlan;
  return h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
    button(isPlan ? "Go ahead" : ANSWERS.once, () => page.answer(element.key, { reply: "once" }), { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
    isRemembered ? rememberButton("Remember", page, element) : null,
    rejectButton(ANSWERS.reject, page, element),
    canEdit(row) && !isPlan ? modeButton("Edit", "edit", { kind: "quiet", key: "e" }, page, element) : null,
    moreButton(element));
}

/** Return the button that shows what else is known of the request, below its answers. */
export function moreButton(element) {
  const isOpen = !element.more.hidden;
  return button(isOpen ? "Less" : "More", () => element.more.toggle(), { kind: "quiet", "aria-keyshortcuts": "w", "aria-expanded": String(isOpen), data: { more: "" } });
}

/** Return the foot of a request that several people must approve: each of them only this call. */
function approving(row, lockHolder, page, element) {
  const mayApprove = !hasApproved(row, page.me) && !isAsker(row, page.me);
  return [
    approvalsLine(row, page.me, element),
    isAsker(row, page.me) ? h("p", { class: "granting" }, "Your own yes does not count: it is your agent that asks.") : null,
    lockHolder,
    h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
      mayApprove ? button(approveLabel(row), () => page.answer(element.key, { reply: "once" }), { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }) : null,
      rejectButton(ANSWERS.reject, page, element),
      moreButton(element)),
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
    h("div", { class: "form choosing" }, ...choices(row, draft, element)), missing,
    h("div", { class: "buttons", role: "group", "aria-label": "Answer" },
      button("Answer", submit, { kind: "once", "aria-keyshortcuts": "o", data: { answer: "once" } }),
      rejectButton(ANSWERS.reject, page, element),
      moreButton(element)),
  ];
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

/** Return the button that leaves a form of the foot. */
export function back(draft, element) {
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
