// The state of a session at a moment: pending requests, grants, clients.

import { button, h, link } from "./dom.js";
import { at, serverNow, spell } from "./clock.js";
import { LABELS } from "./labels.js";
import { callInRow } from "./what.js";
import { reveal } from "./reveal.js";
import { requestPlace } from "./why.js";

/** Return nodes for the brief row of `GET …/state`; with `isNow` deadlines count from now, else from that moment. `release` gives a claim back, for who may: `give(one)` does, `pressed` has the claims whose button was pressed once. */
export function moment(row, isNow, release = null) {
  const nowMs = isNow ? serverNow() : Date.parse(row.at);
  const { pending, approved, clients, settled } = row.state;
  const { claims } = row;
  return [
    part("Waiting", pending.length, pending.map((one) => waiting(one, row.session, nowMs)), "Nothing waited."),
    claims.length ? part("Claimed", claims.length, claims.map((one) => claimed(one, row.session, isNow ? release : null)), "") : null,
    part("Approved", approved.length, approved.map(approval), "Nothing was approved."),
    online(row, clients),
    h("p", { class: "hint" }, settledText(settled)),
  ].filter(Boolean);
}

/** Return who is online now, or, of a past moment, who was on record then; null if nobody was recorded. */
function online(row, clients) {
  if (clients === null) return part("Online", 0, [], "Unknown who is online.");
  const items = clients.map((client) => h("li", {}, client.name, row.lock === client.client_id ? h("small", {}, " holds the input lock") : null, client.since ? h("small", {}, ` since ${at(client.since)}`) : null));
  if (row.clients_are === "online") return part("Online", clients.length, items, "Nobody is online.");
  return clients.length ? part("Clients on record", clients.length, items, "") : null;
}

function part(name, count, items, none) {
  return h("section", { class: "moment-part" }, h("h3", {}, name, count ? h("span", { class: "number" }, ` ${count}`) : null),
    count ? h("ul", {}, ...items.slice(0, 50), count > 50 ? h("li", { class: "hint" }, `and ${count - 50} more`) : null) : h("p", { class: "hint" }, none));
}

/** Return the words of a call, linked to the page of its request. */
function callLink(one, session) {
  return link(requestPlace({ session, request_id: one.request_id }), { class: "call" }, ...callInRow(one));
}

/** Return a bar from asking to deadline, filled by the elapsed share. */
function waiting(one, session, nowMs) {
  const begun = Date.parse(one.asked_at);
  const end = one.deadline ? Date.parse(one.deadline) : null;
  const share = end ? Math.max(0, Math.min(1, (nowMs - begun) / Math.max(1, end - begun))) : 0;
  const fill = h("span", { class: "gone-by" });
  fill.style.transform = `scaleX(${share.toFixed(3)})`;
  return h("li", {},
    callLink(one, session),
    h("span", { class: "deadline", role: "img", "aria-label": `${Math.round(share * 100)} percent of its time gone` }, fill),
    h("small", {}, end ? `${spell(end - nowMs)} left, ${one.tier}; until ${at(one.deadline)}` : LABELS.no_deadline));
}

/** Return a call that a runner took and whose end is not recorded. */
function claimed(one, session, release) {
  const { claim } = one;
  return h("li", {},
    callLink(one, session),
    h("small", {}, " claimed by ", ...reveal(claim.runner), `, ${at(claim.at)}: may have run`),
    release ? releaseButton(one, release) : null);
}

/** Return a button that is pressed twice: the call may have run, and may run again after it. A page drawn again between the presses remembers the first. */
function releaseButton(one, { give, pressed }) {
  const key = claimKey(one);
  const text = () => (pressed.has(key) ? "It may have run. Release all the same" : "Release the claim");
  const act = button(text(), () => {
    if (pressed.has(key)) return give(one);
    pressed.add(key);
    act.textContent = text();
  }, { kind: "quiet", data: { claim: key } });
  return act;
}

/** Return a name of a claim that no later claim of the same request has. */
function claimKey({ request_id: request, claim }) {
  return JSON.stringify([request, claim.at, claim.runner]);
}

function approval(one) {
  return h("li", {}, h("span", { class: "permission" }, one.permission), " ", h("code", {}, ...reveal(one.pattern)),
    h("small", {}, ` ${one.scope}, by ${one.by}${one.expires_at ? `, until ${at(one.expires_at)}` : ""}`));
}

const OUTCOMES = ["allowed", "denied", "rejected", "corrected", "expired", "cancelled"];

/** `counts` has the number of requests by outcome. */
function settledText(counts) {
  const said = OUTCOMES.filter((outcome) => counts[outcome]).map((outcome) => `${counts[outcome]} ${outcome}`);
  return said.length ? `Settled by then: ${said.join(", ")}.` : "Nothing was settled by then.";
}
