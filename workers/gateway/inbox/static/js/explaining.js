// What else each grant would have let through, by the requests of the last days. It is fetched when *Remember…* is opened.

import { NoConnection, Problem, get, path } from "./api.js";
import { at } from "./clock.js";
import { inWords } from "./dangers.js";
import { announce, button, h, sessionLink } from "./dom.js";
import { outcomeText } from "./outcomes.js";
import { reveal } from "./reveal.js";
import { isSame } from "./why.js";

const SOURCES = { index: "the index of requests", log: "the log" };

/** Return what the chosen grant would have let through; it is fetched once for a card. */
export function explained(row, chosen, page, element) {
  const inner = h("div", { class: "explained" }, h("p", { class: "hint", role: "status" }, "Judging the requests of the last 30 days …"));
  element.why ??= get(path("/v1/sessions/{}/asks/{}/why", row.session, row.request_id));
  element.why.then((why) => {
    inner.replaceChildren(...drawn(why, row, chosen, page));
    announce(inner.querySelector(".counted")?.textContent ?? "");
  }, (error) => {
    if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    element.why = null;
    inner.replaceChildren(h("p", { class: "warning", role: "status" }, `What else it would let through could not be read: ${error.message}.`));
  }).then(() => {
    // The buttons below have moved: no press of before counts for them.
    page.screen?.changeFoot(element);
  });
  return inner;
}

function drawn(why, row, chosen, page) {
  if (why.digest !== row.digest) return [h("p", { class: "warning" }, "The request has changed since it was shown. Read it again.")];
  if (why.refused !== null) return [h("p", { class: "hint" }, "No grant would have answered it: ", ...reveal(why.refused), ".")];
  const one = why.choices.find(({ entries }) => isSame(entries, chosen.patterns));
  return [
    one ? h("p", { class: one.rejected ? "counted rejected" : "counted" }, ...counted(one, why).map((piece) => (piece === why.project ? h("bdi", {}, ...reveal(piece)) : piece))) : null,
    one?.suggested ? h("p", { class: "warning" }, "Suggested by the agent.") : null,
    one ? examples(one, page) : null,
    why.rule ? ruleForFile(why.rule) : null,
    h("p", { class: "hint" }, basis(why.past)),
  ].filter(Boolean);
}

/** Return the count of a choice as the pieces of a sentence; the project, which others name, is one of them. */
function counted(one, why) {
  const place = why.project ? [" in ", why.project] : [" of this session"];
  const { looked_at: all, days } = why.past;
  if (!all) return [`No other request of the last ${days} days`, ...place, " waited for a person."];
  const text = `Would have answered ${one.answered} of ${all} other request${all === 1 ? "" : "s"} of the last ${days} days`;
  return [text, ...place, one.rejected ? `; ${one.rejected} of them ${one.rejected === 1 ? "was" : "were"} rejected by people.` : "."];
}

function examples(one, page) {
  if (!one.examples.length) return null;
  const rows = one.examples.map((past) => h("li", {},
    h("code", {}, ...reveal(past.call.replaceAll(/\s+/g, " "))),
    h("small", { class: past.outcome === "rejected" || past.outcome === "corrected" ? "no" : null }, past.outcome ? outcomeText(past, page.me.name) : "Waiting", ", ", at(past.asked_at), ", "),
    sessionLink(past.session, past.version)));
  return h("details", { class: "examples", open: one.rejected > 0 }, h("summary", {}, `${rows.length} example${rows.length === 1 ? "" : "s"}`), h("ul", {}, ...rows));
}

/** Return the smallest rule of the dialect, to be copied into a file by a person. */
function ruleForFile(rule) {
  const text = JSON.stringify(rule.config, null, 2);
  const also = rule.lets_through.length ? h("p", { class: "hint" }, "It also lets through: ", ...rule.lets_through.flatMap((one, index) => [index ? ", " : null, h("code", {}, ...reveal(one))]), ".") : null;
  const copy = button("Copy the rule", () => navigator.clipboard?.writeText(text).then(() => announce("Copied"), () => announce("This browser does not let the page copy: select the text.")), { kind: "small" });
  return h("details", { class: "rule-for-file" },
    h("summary", {}, "As a rule for a file"),
    h("div", {}, h("p", {}, ...inWords(rule.text.charAt(0).toUpperCase() + rule.text.slice(1)), ":"), h("pre", { class: "code" }, ...reveal(text)), also, copy));
}

function basis(past) {
  const parts = [`Judged again by the rules, grants and files of now; found in ${SOURCES[past.source] ?? past.source} since ${at(past.since)}`];
  if (past.unknown) parts.push(`${past.unknown} could not be judged`);
  if (past.cut) parts.push("there are more than were looked at");
  return `${parts.join("; ")}.`;
}
