// A question of an agent with choices; the chosen options are sent back as the answer.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";

/** Return the questions of a call such as `AskUserQuestion`, or none. */
export function questionsOf(row) {
  const asked = row.input?.questions;
  if (!row.tool_name || !Array.isArray(asked) || !asked.length) return [];
  const isReadable = (one) => typeof one?.question === "string" && (one.options === undefined || Array.isArray(one.options));
  return asked.every(isReadable) ? asked : [];
}

/** Return the texts of a request that the choices show: each after its place in the input and a line feed. */
export function choiceTexts(row) {
  const placed = (option, place) => [`${place}.label\n${labelOf(option)}`, `${place}.description\n${option?.description}`];
  return questionsOf(row).flatMap((one, index) => (one.options ?? []).flatMap((option, at) => placed(option, `questions[${index}].options[${at}]`)));
}

/** Return the plan that an agent wants to start, or null. */
export function planOf(row) {
  return row.tool_name && typeof row.input?.plan === "string" && row.input.plan.trim() ? row.input.plan : null;
}

const labelOf = (option) => String(typeof option === "object" && option !== null ? (option.label ?? "") : option);
const isMany = (one) => one.multiSelect === true || one.multiple === true;

/** Return the fields of the choices; `draft.chosen` keeps the chosen options, by the number of the question. */
export function choices(row, draft, element) {
  draft.chosen ??= {};
  return questionsOf(row).map((one, index) => {
    const chosen = (draft.chosen[index] ??= { labels: [], own: "" });
    const name = `choice-${index}-${element.key}`;
    const own = h("input", { type: "text", maxlength: "2000", placeholder: "In your own words", "aria-label": `In your own words: ${one.question}`, value: chosen.own });
    own.addEventListener("input", () => { chosen.own = own.value; });
    return h("fieldset", { class: "choices" },
      // The text of a single question is shown above already.
      h("legend", { class: questionsOf(row).length > 1 ? null : "spoken" }, ...reveal(one.question)),
      ...(one.options ?? []).map((option) => choice(option, { name, isMany: isMany(one), chosen })),
      own);
  });
}

function choice(option, { name, isMany: many, chosen }) {
  const label = labelOf(option);
  const box = h("input", { type: many ? "checkbox" : "radio", name, value: label, checked: chosen.labels.includes(label) });
  box.addEventListener("change", () => {
    const others = many ? chosen.labels.filter((one) => one !== label) : [];
    chosen.labels = box.checked ? [...others, label] : others;
  });
  return h("label", {}, box, h("span", {}, h("strong", {}, ...reveal(label)), option?.description ? h("small", {}, ...reveal(String(option.description))) : null));
}

/** Return the input with its answers, by question; null while one is missing. */
export function answered(row, draft) {
  const answers = {};
  for (const [index, one] of questionsOf(row).entries()) {
    const { labels = [], own = "" } = draft.chosen?.[index] ?? {};
    const said = own.trim() ? (isMany(one) ? [...labels, own.trim()] : [own.trim()]) : labels;
    if (!said.length) return null;
    // Some clients expect several labels as a list, others as one text.
    answers[one.question] = one.multiple === true ? said : said.join(", ");
  }
  return { ...row.input, answers };
}
