// A question of an agent with choices; the chosen options are sent back as the answer.

import { h } from "./dom.js";
import { reveal, revealMarked } from "./reveal.js";

const MANY = ["multiSelect", "multiple"]; // what agents call that several options may be chosen

/** Return the questions of a call such as `AskUserQuestion`, or none. */
export function questionsOf(row) {
  const asked = row.input?.questions;
  if (!row.tool_name || !Array.isArray(asked) || !asked.length) return [];
  const isReadable = (one) => typeof one?.question === "string" && (one.options === undefined || Array.isArray(one.options));
  return asked.every(isReadable) ? asked : [];
}

/** Return the texts of a request that the choices show: each after its place in the input and a line feed. */
export function choiceTexts(row) {
  return questionsOf(row).flatMap((one, index) => {
    const place = `questions[${index}]`;
    const told = [`${place}.question\n${one.question}`, `${place}.header\n${one.header}`, ...MANY.map((name) => `${place}.${name}\n${one[name] === true}`)];
    return [...told, ...(one.options ?? []).flatMap((option, at) => {
      const own = `${place}.options[${at}]`;
      return typeof option === "string" ? [`${own}\n${option}`] : [`${own}.label\n${labelOf(option)}`, `${own}.description\n${option?.description}`];
    })];
  });
}

/** Return the plan that an agent wants to start, or null. */
export function planOf(row) {
  return row.tool_name && typeof row.input?.plan === "string" && row.input.plan.trim() ? row.input.plan : null;
}

const labelOf = (option) => String(typeof option === "object" && option !== null ? (option.label ?? "") : option);
const isMany = (one) => MANY.some((name) => one[name] === true);

/** Return a text of the question with the marks of its description. */
const shown = (row, text) => revealMarked(text, row.description?.sections.find((one) => one.text === text)?.marks);

/** Return the questions with their choices; `draft.chosen` keeps the chosen options, by the number of the question. */
export function choices(row, draft, element) {
  draft.chosen ??= {};
  return questionsOf(row).map((one, index) => {
    const chosen = (draft.chosen[index] ??= { labels: [], own: "" });
    const name = `choice-${index}-${element.key}`;
    const own = h("input", { type: "text", maxlength: "2000", placeholder: "In your own words", "aria-label": `In your own words: ${one.question}`, value: chosen.own });
    own.addEventListener("input", () => { chosen.own = own.value; });
    return h("fieldset", { class: "choices" },
      h("legend", {}, typeof one.header === "string" && one.header ? h("small", {}, ...shown(row, one.header)) : null, ...shown(row, one.question)),
      ...(one.options ?? []).map((option) => choice(option, { row, name, isMany: isMany(one), chosen })),
      own);
  });
}

/** Return the questions to read: each with its answer, if it was given on this page, or with its choices. */
export function asked(row, element, answers) {
  return choices(row, {}, element).map((fieldset, index) => {
    const [question, ...options] = fieldset.children;
    options.pop(); // the field for own words
    const answer = answers?.[questionsOf(row)[index].question];
    fieldset.disabled = true;
    fieldset.replaceChildren(question, ...(answer === undefined ? options : [h("p", {}, ...reveal([answer].flat().join(", ")))]));
    return fieldset;
  });
}

function choice(option, { row, name, isMany: many, chosen }) {
  const label = labelOf(option);
  const box = h("input", { type: many ? "checkbox" : "radio", name, value: label, checked: chosen.labels.includes(label) });
  box.addEventListener("change", () => {
    const others = many ? chosen.labels.filter((one) => one !== label) : [];
    chosen.labels = box.checked ? [...others, label] : others;
  });
  return h("label", {}, box, h("span", {}, h("strong", {}, ...shown(row, label)), option?.description ? h("small", {}, ...shown(row, String(option.description))) : null));
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
