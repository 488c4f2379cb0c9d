// Events of the log: the sentences of the views, and details.

import { ago, at } from "./clock.js";
import { h } from "./dom.js";
import { reveal } from "./reveal.js";
import { ruleText } from "./why.js";

const VIA = { gateway: "over the gateway", inbox: "in the inbox", link: "by an answer link", opencode: "in OpenCode", local: "on this machine", told: "told by the agent's side, not seen" };

/** Return the sentence from the views or, while they lag, the event's type. */
export function sentence({ line, entry }) {
  return line?.text ?? `${entry.actor.name}: ${entry.type.replaceAll("_", " ")}${entry.event.request_id ? ` ${entry.event.request_id}` : ""}`;
}

export function whoText(actor) {
  return `${actor.name}${actor.via && VIA[actor.via] ? `, ${VIA[actor.via]}` : actor.kind && actor.kind !== "person" ? `, ${actor.kind}` : ""}`;
}

/** Return all details of an event. */
export function eventDetail(row) {
  const { entry } = row;
  const evaluation = entry.event.detail?.evaluation;
  const rules = evaluation?.rules ?? [];
  const facts = [
    ["Who", whoText(entry.actor)],
    ["When", h("time", { datetime: entry.at, title: entry.at }, `${at(entry.at)}, ${ago(entry.at)}`)],
    evaluation?.reason ? ["Why", h("span", {}, ...reveal(evaluation.reason))] : null,
    rules.length ? ["Rules", h("ul", {}, ...rules.map((rule) => h("li", {}, ...ruleText(rule))))] : null,
    entry.event.told ? ["Told", `answered at ${entry.event.told}, as the agent's side says: the ledger did not see it`] : null,
    entry.actor.token_id ? ["Token", h("code", {}, entry.actor.token_id)] : null,
    ["Entry", h("code", {}, entry.id)],
  ].filter(Boolean);
  return [
    h("p", { class: "sentence" }, ...reveal(sentence(row))),
    h("dl", { class: "facts-list" }, ...facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    h("details", {}, h("summary", {}, "The event as it stands in the log"), h("pre", { class: "code raw", tabindex: "0" }, ...reveal(JSON.stringify(entry.event, null, 2)))),
  ];
}

/** Return a class for an event's colour. */
export function kindOf({ type, event }) {
  if (type === "replied") return event.outcome === "allowed" ? "good" : "bad";
  if (type === "asked") return { allow: "quiet", ask: "asks", deny: "bad" }[event.verdict] ?? "quiet";
  if (type === "expired" || type === "cancelled") return "gone";
  if (type === "granted" || type === "revoked") return "grant";
  return "quiet";
}
