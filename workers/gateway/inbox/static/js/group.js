// The card of alike requests: what they have in common is drawn once, what differs is drawn for each. An allow needs all
// of it to have been on the screen, and counts for the requests as drawn.

import { at, serverNow, spell } from "./clock.js";
import { extendButton } from "./card.js";
import { h, sessionLink } from "./dom.js";
import { effectSign } from "./effects.js";
import { isOffered } from "./extending.js";
import { groupFoot } from "./group-foot.js";
import { LABELS } from "./labels.js";
import { outcomeKind, outcomeText } from "./outcomes.js";
import { reveal, revealMarked } from "./reveal.js";
import { differing } from "./shape.js";
import { keyOf } from "./store.js";
import { revealIn, whatRuns } from "./what.js";
import { needs, where, why } from "./why.js";

const SOON_MS = 15_000;
const CODE = new Set(["command", "pattern", "path", "address", "search", "query"]);

/** Return the card of a group with all of its requests; as a card of one request, with `tick()`, `refoot()` and its `key`. */
export function groupCard(group, rows, page) {
  const [first] = rows;
  const left = h("span", { class: "left" });
  const extend = page.mayAnswer ? extendButton(page, () => element) : null;
  const bottom = h("div", { class: "foot" });
  const differ = differing(rows);
  const lines = rows.map((row, index) => line(row, differ[index], page));
  const element = h("article", { class: "card group", tabindex: "0", "aria-label": `${rows.length} alike: ${first.permission}` },
    h("header", { class: "head" },
      h("h2", { class: "title" }, effectSign(first), h("span", { class: "alike" }, `${rows.length} alike`), h("span", { class: "permission" }, ...revealIn(first, first.permission)),
        first.tool_name && first.tool_name !== first.permission ? h("span", { class: "tool" }, ...revealIn(first, first.tool_name)) : null,
        first.project ? h("span", { class: "asker" }, ...reveal(first.project)) : null),
      h("span", { class: "time" }, extend, left)),
    h("p", { class: "hint" }, differ[0].length ? "The first of them:" : "All of them:"),
    h("div", { class: "what" }, ...whatRuns(first)),
    h("div", { class: "facts" }, why(first), needs(first, page.me)),
    h("p", { class: "hint" }, differ[0].length ? "Each of them, and how it differs:" : "Each of them:"),
    h("ol", { class: "group-members" }, ...lines),
    bottom);
  element.digests = new Map(rows.map((row) => [keyOf(row), row.digest]));
  element.rows = new Map(rows.map((row) => [keyOf(row), row]));
  element.tick = () => {
    for (const one of lines) one.tick();
    const waiting = page.members.waiting(element.key);
    const current = waiting.map((row) => page.rowOf(keyOf(row)) ?? row);
    if (extend) extend.hidden = !current.some(isOffered);
    const ends = current.map((row) => Date.parse(row.deadline)).filter((end) => !Number.isNaN(end));
    const ms = ends.length ? Math.min(...ends) - serverNow() : Infinity;
    left.textContent = !waiting.length ? "" : ms === Infinity ? LABELS.no_deadline : ms > 0 ? `first ends in ${spell(ms)}` : LABELS.deadline_passed;
    left.classList.toggle("soon", ms < SOON_MS);
  };
  element.refoot = () => {
    const [before, held] = [element.dataset.phase, bottom.contains(document.activeElement)];
    element.dataset.phase = page.members.phase(element.key);
    element.dataset.state = page.members.state(element.key);
    bottom.style.minHeight = element.dataset.phase === "waiting" ? "" : `${bottom.offsetHeight}px`;
    bottom.replaceChildren(...groupFoot(element.key, group, page, element));
    element.tick();
    if (held) element.focus({ preventScroll: true });
    page.screen?.changeFoot(element);
    if (before === "waiting" && element.dataset.phase !== before) page.screen?.stir();
  };
  return element;
}

/** Return the line of one request of a group: who asks, from where, and what differs from the others. */
function line(row, differ, page) {
  const key = keyOf(row);
  const left = h("span", { class: "left" });
  const result = h("span", { class: "result", role: "status" });
  const more = h("div", { class: "opened", hidden: true });
  const open = h("button", { type: "button", class: "open", "aria-expanded": "false" }, "Open");
  open.addEventListener("click", () => {
    more.hidden = !more.hidden;
    open.textContent = more.hidden ? "Open" : "Close";
    open.setAttribute("aria-expanded", String(!more.hidden));
    more.replaceChildren(...(more.hidden ? [] : [h("div", {}, ...whatRuns(row)), h("div", { class: "facts" }, where(row), why(row))]));
  });
  const element = h("li", { data: { member: row.request_id } },
    h("p", { class: "who" }, h("span", { class: "asker" }, ...revealIn(row, row.by)),
      row.agent && row.agent !== row.by ? h("span", { class: "calls-itself" }, `${LABELS.calls_itself} “`, ...revealIn(row, row.agent), "”") : null,
      h("span", { class: "tree" }, ...[...(row.lineage ?? []), row.session].flatMap((session, index) => [index ? " › " : null, sessionLink(session)])),
      left, open),
    ...differ.map((one) => difference(one, differ.length)), result, more);
  element.tick = () => {
    const local = page.localOf(key);
    const known = page.members.result(key);
    const ms = row.deadline ? Date.parse(page.rowOf(key)?.deadline ?? row.deadline) - serverNow() : null;
    const isOver = known !== null;
    left.textContent = isOver || ms === null ? "" : ms > 0 ? spell(ms) : "passed";
    left.classList.toggle("soon", ms !== null && ms < SOON_MS);
    const text = isOver ? outcomeText(known, page.me.name) : local?.phase === "failed" ? `Not sent: ${local.problem.message}` : local?.phase === "unsure" ? "No connection: it will be sent again" : (local?.note ?? goneText(page.rowOf(key)));
    if (result.textContent !== text) result.textContent = text;
    result.className = `result ${isOver ? outcomeKind(known.outcome) : "warn"}`;
    element.classList.toggle("over", isOver);
  };
  return element;
}

function goneText(row) {
  return row?.asker_gone_at ? `Asker gone since ${at(row.asker_gone_at)}` : "";
}

function difference({ label, text, marks, kind, span: [from, to] }, count) {
  const shown = text === "" ? [h("span", { class: "empty-text" }, "none")] : revealMarked(text, marks, (index) => (index >= from && index < to ? "differs" : ""));
  return h("p", { class: "difference" }, count > 1 || !CODE.has(kind) ? h("small", {}, ...reveal(label), " ") : null, h("code", {}, ...shown));
}
