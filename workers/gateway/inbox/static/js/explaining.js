// The reason for a request in full: the grants that would have answered it, and what else each would have let through.
// It is fetched when it is opened, and a press answers the request with exactly one of these grants.

import { NoConnection, Problem, get, path } from "./api.js";
import { at } from "./clock.js";
import { inWords } from "./dangers.js";
import { announce, button, h, sessionLink } from "./dom.js";
import { outcomeText } from "./outcomes.js";
import { planOf, questionsOf } from "./question.js";
import { reveal } from "./reveal.js";
import { REACHES, isSame } from "./why.js";

const NAME_CHARS = 16;
const SOURCES = { index: "the index of requests", log: "the log" };

/** Fetch the reason and draw it; return whether it could be read. */
export async function explain(row, page, element, inner) {
  inner.replaceChildren(h("p", { class: "hint", role: "status" }, "Judging the requests of the last 30 days …"));
  try {
    const why = await get(path("/v1/sessions/{}/asks/{}/why", row.session, row.request_id));
    inner.replaceChildren(...drawn(why, row, page, element));
    // Buttons have appeared: no press of before counts for them, nor one in the next microtask.
    page.screen?.changeFoot(element);
    announce(why.refused === null ? why.choices.map((one) => `${REACHES[one.reach]}: ${counted(one, why).join("")}`).join(" ") : "No grant would have answered this.");
    return true;
  } catch (error) {
    if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    inner.replaceChildren(h("p", { class: "warning", role: "status" }, `This could not be read: ${error.message}. Close it and open it again.`));
    page.screen?.changeFoot(element);
    return false;
  }
}

function drawn(why, row, page, element) {
  if (why.digest !== row.digest) return [h("p", { class: "warning" }, "The request has changed since it was shown. Read it again.")];
  if (why.refused !== null) return [h("p", { class: "hint" }, "No grant would have answered it: ", ...reveal(why.refused), ".")];
  return [
    h("ul", { class: "offered" }, ...why.choices.map((one) => choice(one, { why, row, page, element }))),
    why.rule ? ruleForFile(why.rule) : null,
    h("p", { class: "hint" }, basis(why.past)),
  ].filter(Boolean);
}

function choice(one, { why, row, page, element }) {
  const label = REACHES[one.reach] ?? REACHES.all;
  return h("li", { class: one.wide ? "wide" : null },
    h("p", { class: "offer-name" },
      h("b", {}, label),
      one.smallest ? h("span", { class: "chip" }, "smallest") : null,
      one.wide ? h("span", { class: "chip broad" }, "broad") : null,
      one.suggested ? h("span", { class: "chip broad" }, "suggested by the agent") : null,
      ...(one.name ? [h("span", {}, ...reveal(one.name))] : one.entries.map((entry) => h("code", {}, ...reveal(entry))))),
    h("p", { class: one.rejected ? "counted rejected" : "counted" }, ...counted(one, why).map((piece) => (piece === why.project ? h("bdi", {}, ...reveal(piece)) : piece))),
    examples(one, page),
    page.mayAnswer && !planOf(row) && !questionsOf(row).length ? answers(one, label, { why, row, page, element }) : null);
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

/** Return the buttons: each answers the request with this grant, within its bounds. */
function answers(one, label, { why, row, page, element }) {
  const isProject = why.scope === "project";
  const where = !isProject ? "" : why.project.length > NAME_CHARS ? " in this project" : ` in ${why.project}`;
  const long = isProject ? "always" : "session";
  const patterns = isSame(one.entries, row.always) ? null : one.entries;
  const say = (text, answer) => button(text, () => page.answer(element.key, { ...answer, patterns }), { kind: "small", "aria-label": `${text}: allow ${label}`, data: { answer: "grant" } });
  return h("div", { class: "buttons", role: "group", "aria-label": `Allow ${label}` },
    say("This session", { reply: "session" }),
    say(`1 hour${where}`, { reply: long, expires: "1h" }),
    say(`5 more calls${where}`, { reply: long, uses: 5 }),
    isProject ? say(`Always${where}`, { reply: "always" }) : null);
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
