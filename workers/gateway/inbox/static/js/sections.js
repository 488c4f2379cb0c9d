// The sections of a request's description as elements. Every section is drawn: whole, or folded, which delays an allow.

import { h } from "./dom.js";
import { lineDiff, patchLines } from "./diff.js";
import { folded, foldedParts } from "./fold.js";
import { choiceTexts } from "./question.js";
import { withJumps } from "./jumps.js";
import { markdown } from "./markdown.js";
import { revealMarked } from "./reveal.js";

const BRIEF_CHARS = 90;
const HEAD = new Set(["tool", "permission", "asker", "agent", "folder", "offered"]); // the head, the facts and the foot have them
const PROSE = new Set(["question", "option", "plan"]);
const CHANGES = new Set(["before", "after", "content", "patch"]);
const WIDE = new Set(["command", ...CHANGES, ...PROSE]);

/** Return elements of the sections outside of head, facts and foot. `paint(text)` returns a class for each position. */
export function drawSections(row, paint) {
  const told = new Set(choiceTexts(row));
  const isShown = (one) => one.repeats || HEAD.has(one.kind) || isChoice(one, told) || (one.kind === "pattern" && [row.permission, row.tool_name].includes(one.text));
  const left = withoutPieces(row.description.sections.filter((one) => !isShown(one)));
  const wide = left.filter((one) => WIDE.has(one.kind) && (one.origin !== "metadata" || one.isWhole || one.kind === "patch"));
  const alone = onlyPattern(left);
  const files = wide.some(({ kind }) => CHANGES.has(kind)) ? left.filter((one) => one.kind === "path" && one.origin === "input") : [];
  const members = left.filter((one) => !wide.includes(one) && !files.includes(one) && one.kind !== "remark" && one !== alone);
  return [
    ...left.filter((one) => one.kind === "remark").map(remark),
    alone ? block(alone, (text) => code(text, alone)) : null,
    membersList(files),
    ...paired(wide).map((pair) => (Array.isArray(pair) ? difference(...pair) : wideBlock(pair, paint, row))),
    membersList(members),
  ];
}

/** If the patterns are only the parts of a command in the metadata, show that command once, whole. */
function withoutPieces(sections) {
  const pieces = sections.filter((one) => one.kind === "command" && one.origin === "patterns");
  const whole = sections.find((one) => one.kind === "command" && one.origin === "metadata" && pieces.length && pieces.every(({ text }) => one.text.includes(text)));
  if (!whole) return sections;
  return [{ ...whole, isWhole: true }, ...sections.filter((one) => one !== whole && !pieces.includes(one))];
}

function membersList(sections) {
  return sections.length ? h("dl", { class: "members" }, ...sections.map(member)) : null;
}

/** Return the section of a request with only a pattern, which is drawn as large as a command. */
function onlyPattern(sections) {
  const own = sections.filter((one) => one.origin !== "metadata" && one.kind !== "operand");
  return own.length === 1 && own[0].kind === "pattern" ? own[0] : null;
}

/** Return whether a section is a part of a question that its choices show. */
function isChoice(section, told) {
  return section.origin === "input" && told.has(`${section.label}\n${section.text}`);
}

/** Pair the removed text with its replacement. */
function paired(sections) {
  const found = [];
  for (const one of sections) {
    const before = found.at(-1);
    const isPair = one.kind === "after" && before?.kind === "before" && stem(one) === stem(before);
    if (isPair) found[found.length - 1] = [before, one];
    else found.push(one);
  }
  return found;
}

const stem = ({ label }) => label.slice(0, label.lastIndexOf(".") + 1);

function wideBlock(section, paint, row) {
  switch (section.kind) {
    case "command": return block(section, (text) => commandRows(text, section, paint), section.origin !== "patterns" && section.label !== "command");
    case "before": return block(section, (text) => diff(asLines("gone", text), section), true);
    case "after": return block(section, (text) => diff(asLines("came", text), section), true);
    case "content": return block(section, (text) => diff(asLines("came", text), section), true);
    case "patch": return block(section, (text) => diff(patchLines(text), section), true);
    case "plan": if (row.plan && section.origin === "input") return plan(row.plan, section);
    // falls through
    default: return block(section, (text) => h("div", { class: "code prose" }, ...revealMarked(text, section.marks)), section.kind === "option");
  }
}

/** Return a plan as its Markdown reads, and as it was written. A long one must be read as it was written. */
function plan(tree, section) {
  const written = (text) => h("div", { class: "code prose" }, ...revealMarked(text, section.marks));
  const read = h("div", { class: "plan" }, ...markdown(tree));
  if (section.may_fold) return h("div", { class: "named" }, folded(section.text, written), h("details", {}, h("summary", {}, "Read it as Markdown"), read));
  return h("div", { class: "named" }, read, h("details", {}, h("summary", {}, "As it was written"), written(section.text)));
}

function block(section, draw, isNamed = false) {
  const body = section.may_fold ? folded(section.text, draw) : draw(section.text);
  return isNamed ? h("div", { class: "named" }, label(section), body) : body;
}

/** Return the member's own name, with a note for a file that is written whole. */
function label(section) {
  return h("p", { class: "what-label" }, ...nameOf(section), section.kind === "content" ? h("small", {}, " writes the whole file") : null);
}

function nameOf(section) {
  const own = section.origin === "input" || section.origin === "metadata";
  const name = own ? revealMarked(section.label, section.label_marks) : [section.label];
  return section.origin === "metadata" ? [h("small", {}, "metadata "), ...name] : name;
}

function code(text, { marks }) {
  return h("pre", { class: "code" }, ...revealMarked(text, marks));
}

/** Return a command, one of its parts a line. */
function commandRows(text, { text: whole, rows, marks }, paint) {
  const painted = paint(whole);
  const element = h("pre", { class: "code command" });
  let index = 0;
  let point = 0;
  for (const part of rows ?? [text]) {
    if (index >= text.length) break;
    const shown = part.slice(0, text.length - index);
    const [from, at] = [index, point];
    element.append(h("span", { class: "row" }, ...revealMarked(shown, shifted(marks, at), (place) => painted[from + place])));
    index += part.length;
    point += [...part].length;
  }
  return element;
}

/** Return the marks of a text, shifted to the part that begins at this code point. */
function shifted(marks = [], by) {
  return by ? marks.map(([start, end, kind]) => [start - by, end - by, kind]) : marks;
}

function difference(before, after) {
  const whole = () => diff(lineDiff(before.text, after.text), after, before);
  const name = h("p", { class: "what-label" }, ...nameOf(before), " → ", ...nameOf(after));
  const isLong = before.may_fold || after.may_fold;
  const size = `${before.text.split("\n").length} lines become ${after.text.split("\n").length}`;
  const beginning = () => diff(lineDiff(before.text, after.text).slice(0, 10).map((line) => ({ ...line, text: line.text.slice(0, 400) })), after, before);
  return h("div", { class: "named" }, name, isLong ? foldedParts(size, whole, beginning, after.text) : whole());
}

const asLines = (kind, text) => text.split("\n").map((line) => ({ kind, text: line }));
const MARKS = { came: "+", gone: "−", same: " " };
const SPOKEN = { came: "added: ", gone: "removed: " };

function diff(lines, ...sections) {
  const odd = new Map(sections.flatMap(markedIn));
  return withJumps(h("div", { class: "code diff", role: "group", "aria-label": "what changes" }, ...lines.map((line) => h("div", { class: `line ${line.kind} ${line.isRaw ? "raw" : ""}` },
    line.isRaw ? null : h("span", { class: "mark", "aria-hidden": "true" }, MARKS[line.kind]),
    SPOKEN[line.kind] ? h("span", { class: "spoken" }, SPOKEN[line.kind]) : null,
    h("span", { class: "text" }, ...revealMarked(line.text, marksOf(line.text, odd), (index) => (line.from !== undefined && index >= line.from && index < line.to ? "within" : "")))))), lines);
}

/** Return the marked characters of a text with their kinds, for lines whose position is lost. */
function markedIn({ marks = [], text }) {
  if (!marks.length) return [];
  const letters = [...text];
  return marks.flatMap(([start, end, kind]) => letters.slice(start, end).filter((one) => one > "\u007f" || one < " ").map((one) => [one, kind]));
}

function marksOf(text, odd) {
  return odd.size ? [...text].flatMap((one, index) => (odd.has(one) ? [[index, index + 1, odd.get(one)]] : [])) : [];
}

function remark(section) {
  return h("p", { class: "said", title: "The agent's own description, not verified" }, "“", ...revealMarked(section.text, section.marks), "”");
}

function member(section) {
  const text = inOneLine(section);
  const isBrief = text.length <= BRIEF_CHARS && !text.includes("\n");
  const draw = (shown) => code(shown, section);
  const value = isBrief ? brief(text, section) : section.may_fold ? folded(section.text, draw) : draw(section.text);
  return h("div", { class: isBrief ? "brief" : "long" }, h("dt", {}, ...nameOf(section)), h("dd", {}, value));
}

function brief(text, { marks }) {
  return text ? h("code", {}, ...revealMarked(text, marks)) : h("span", { class: "empty-text" }, "empty");
}

/** Return JSON without its line breaks, none of which is inside a string; marked text stays, as marks have positions. */
function inOneLine({ text, is_json: isJson, marks }) {
  if (!isJson || marks) return text;
  return text.replaceAll(/(?<=[[{])\n\s*|\n\s*(?=[\]}])/g, "").replaceAll(/\n\s*/g, " ");
}
