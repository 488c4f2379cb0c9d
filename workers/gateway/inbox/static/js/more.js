// What else is known of a request, behind *More*: where it comes from, why a person is asked, and what can be done with it.

import { isExtendable } from "./extending.js";
import { announce, button, h } from "./dom.js";
import { effectText } from "./effects.js";
import { LABELS, capital } from "./labels.js";
import { planOf, questionsOf } from "./question.js";
import { inOneLine } from "./what.js";
import { where, whatIsGranted, why } from "./why.js";

/** Return the facts and buttons. */
export function moreOf(row, page, card) {
  const isOnce = !whatIsGranted(row).choices.length && !questionsOf(row).length && planOf(row) === null;
  const text = row.input?.command ?? inOneLine(row);
  const copy = () => navigator.clipboard?.writeText(text).then(() => announce("Copied"), () => announce("This browser does not let the page copy: select the text."));
  return [
    h("div", { class: "facts" }, effectText(row), where(row), why(row)),
    isOnce ? h("p", { class: "hint" }, `${capital(LABELS.only_once)}.`) : null,
    h("p", { class: "buttons" }, button("Copy", copy, { kind: "small" }),
      page.mayAnswer && isExtendable(row) ? button("Five minutes more", () => page.extend(card.key), { kind: "small" }) : null),
  ].filter(Boolean);
}
