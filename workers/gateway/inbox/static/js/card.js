// The card of one request, from its question to its outcome: what would run, and the answers. Its middle never changes
// under the reader: only the head (time left) and the foot (progress of the answer) are updated.

import { approvalsMark } from "./approvals.js";
import { foot } from "./foot.js";
import { isOffered } from "./extending.js";
import { button, h } from "./dom.js";
import { effectSign } from "./effects.js";
import { LABELS, capital } from "./labels.js";
import { moreOf } from "./more.js";
import { questionsOf } from "./question.js";
import { reveal } from "./reveal.js";
import { at, serverNow, spell } from "./clock.js";
import { revealIn, whatRuns } from "./what.js";
import { needs, place } from "./why.js";

const SOON_MS = 15_000;
const CHOOSING = new Set(["waiting", "failed"]);
const GONE = new Set(["gone", "settled"]);

/** Return the card: an element with `tick()` to update the time left, `refoot()` to update the foot, and its `key`. */
export function card(row, page) {
  const left = h("span", { class: "left" });
  const bar = h("span", { class: "bar", "aria-hidden": "true" });
  const extend = page.mayAnswer ? extendButton(page, () => element) : null;
  const gone = h("p", { class: "status warn gone", role: "status", hidden: true });
  const bottom = h("div", { class: "foot" });
  const title = h("h2", { class: "title" },
    questionsOf(row).length ? null : effectSign(row),
    h("span", { class: "permission" }, ...revealIn(row, row.permission)),
    row.tool_name && row.tool_name !== row.permission ? h("span", { class: "tool" }, ...revealIn(row, row.tool_name)) : null,
    ...askerOf(row));
  const element = h("article", { class: "card", tabindex: "0", "aria-label": nameOf(row) },
    bar,
    h("header", { class: "head" }, title, h("span", { class: "time" }, extend, left)),
    gone,
    cameBack(row),
    h("div", { class: "what" }, ...whatOf(row)),
    ...(questionsOf(row).length ? [h("div", { class: "facts" }, needs(row, page.me)), bottom, place(row)] : [h("div", { class: "facts" }, place(row), needs(row, page.me)), bottom]));
  element.more = h("div", { class: "more-facts", hidden: true });
  element.more.toggle = () => {
    element.more.hidden = !element.more.hidden;
    element.more.replaceChildren(...(element.more.hidden ? [] : moreOf(row, page, element)));
    const button = element.querySelector("[data-more]");
    button?.setAttribute("aria-expanded", String(!element.more.hidden));
    if (button) button.textContent = element.more.hidden ? "More" : "Less";
  };
  element.append(element.more);
  element.tick = () => {
    element.tellApprovals?.();
    tick(page.rowOf(element.key) ?? row, page.localOf(element.key), { left, bar, gone, extend });
  };
  element.refoot = () => {
    const local = page.localOf(element.key);
    const [before, held] = [element.dataset.phase, bottom.contains(document.activeElement)];
    element.dataset.phase = local?.phase ?? "waiting";
    // An answered card keeps its height, so that nothing moves under the pointer on its way to the next card.
    bottom.style.minHeight = CHOOSING.has(element.dataset.phase) ? "" : `${bottom.offsetHeight}px`;
    // The yeses of others come while the card is shown.
    const now = page.requests.cards.of(element.key);
    const shown = now?.digest === row.digest ? now : row;
    element.dataset.approvals = approvalsMark(shown);
    element.tellApprovals = null;
    bottom.replaceChildren(...foot(shown, local, page, element));
    element.tick();
    if (held) element.focus({ preventScroll: true });
    page.screen?.changeFoot(element);
    if (CHOOSING.has(before) && GONE.has(element.dataset.phase)) page.screen?.stir();
  };
  return element;
}

/** Return what stands in the place of a card until all of its requests are there; it answers nothing. */
export function comingCard({ would_run: words }) {
  const element = h("article", { class: "coming", tabindex: "0", "aria-busy": "true" }, h("p", { class: "hint", role: "status" }, "Loading ", h("code", {}, ...reveal(words)), " …"));
  return Object.assign(element, { isComing: true, digests: new Map(), tick() {}, refoot() {} });
}

/** Return the button that gives a card five minutes more; it is shown while the card has little time. */
export function extendButton(page, element) {
  return button("+5 min", () => page.extend(element().key), { kind: "small extend", "aria-keyshortcuts": "Plus", title: "Five minutes more (+)", hidden: true, data: { extend: "" } });
}

/** The card's accessible name; the name that the agent chose comes last. */
function nameOf({ permission, by, agent }) {
  return `${permission} asked by ${by}${agent && agent !== by ? `, ${LABELS.calls_itself} ${agent}` : ""}`;
}

/** The authenticated token, and apart from it the name that the agent chose. */
function askerOf(row) {
  const asker = h("span", { class: "asker", title: "The token that asks" }, ...revealIn(row, row.by));
  if (!row.agent || row.agent === row.by) return [asker];
  return [asker, h("span", { class: "calls-itself", title: "Chosen by the agent, not verified" }, `${LABELS.calls_itself} “`, ...revealIn(row, row.agent), "”")];
}

/** Return the reason for which an allowed request is pending again; the text may have names that the agent chose. */
function cameBack({ reopened }) {
  return reopened ? h("p", { class: "warning came-back" }, `${capital(LABELS.pending_again)}: `, ...reveal(reopened)) : null;
}

/** A request of an unknown format must not break the page: it is shown as raw JSON. */
function whatOf(row) {
  try {
    return whatRuns(row);
  } catch (error) {
    reportError(error);
    return [h("p", { class: "warning" }, "This request has an unknown format. All of it is shown below."), h("pre", { class: "code" }, ...reveal(JSON.stringify(row, null, 2)))];
  }
}

function tick(row, local, { left, bar, gone, extend }) {
  if (extend) extend.hidden = !CHOOSING.has(local?.phase ?? "waiting") || !isOffered(row);
  gone.hidden = !row.asker_gone_at || local?.phase === "settled" || local?.phase === "gone";
  const text = gone.hidden ? "" : `Asker gone since ${at(row.asker_gone_at)}: an answer reaches it only when it asks again.`;
  if (gone.textContent !== text) gone.textContent = text;
  if (local?.phase === "settled" || local?.phase === "gone") {
    left.textContent = "";
    bar.hidden = true;
    return;
  }
  if (!row.deadline) {
    left.textContent = LABELS.no_deadline;
    bar.hidden = true;
    return;
  }
  const end = Date.parse(row.deadline);
  const ms = end - serverNow();
  const share = Math.max(0, Math.min(1, ms / Math.max(1, end - Date.parse(row.asked_at))));
  left.textContent = ms > 0 ? `${spell(ms)} left` : LABELS.deadline_passed;
  left.title = `${row.tier ?? ""} until ${row.deadline}`;
  left.classList.toggle("soon", ms < SOON_MS);
  bar.style.transform = `scaleX(${share.toFixed(3)})`;
  bar.classList.toggle("soon", ms < SOON_MS);
}
