// What will run, as a person can judge it: a command with its parts, an edit as a difference, or the plain patterns.

import { h } from "./dom.js";
import { lineDiff, patchLines } from "./diff.js";
import { membersList, membersOf, saidOf } from "./members.js";
import { planOf, questionsOf } from "./question.js";
import { reveal, warning } from "./reveal.js";

const CLAMP_LINES = 14;
const CLAMP_CHARS = 1600;
const TAIL_CHARS = 80;
const STRICTNESS = { allow: 0, ask: 1, deny: 2 };

/** Nodes that show the request, whole; long texts are folded with a word on how much is folded, and how they end. */
export function whatRuns(row) {
  const shown = [];
  const texts = [];
  const { blocks, names } = blocksOf(row);
  for (const block of blocks) {
    texts.push(...block.texts);
    shown.push(block.label ? h("p", { class: "what-label" }, ...reveal(block.label)) : null, folded(block));
  }
  const members = membersOf(row, names);
  texts.push(...members.flatMap(({ name, text }) => [name, text]));
  const said = saidOf(row);
  const odd = warning([...texts, ...row.patterns, said ?? ""]);
  return [
    odd ? h("p", { class: "warning odd-note" }, h("strong", {}, "Look closely. "), odd) : null,
    said ? h("p", { class: "said", title: "What the agent says about it; nobody has checked that" }, "“", ...reveal(said), "”") : null,
    ...shown,
    membersList(members, (text) => folded(plain(text))),
    h("div", { class: "folds" }, parts(row), everything(row)),
  ];
}

/** One line for lists and announcements, as the ledger tells it; it says where it was cut. */
export function inOneLine(row) {
  return row.would_run.replaceAll(/\s+/g, " ");
}

export function commandOf(row) {
  for (const one of [row.input, row.metadata]) {
    const command = one?.command ?? one?.cmd;
    if (typeof command === "string" && command) return command;
    if (Array.isArray(command) && command.every((word) => typeof word === "string")) return command.join(" ");
  }
  return /^(bash|shell|run_shell_command|execute)$/i.test(row.permission) && row.patterns.length ? row.patterns.join("\n") : null;
}

/** What is shown large, and the names of the members of the input that it shows. */
function blocksOf(row) {
  const command = commandOf(row);
  if (command !== null) return { blocks: [commandBlock(row, command), ...judgedAs(row, command)], names: ["command", "cmd"] };
  const questions = questionsOf(row);
  if (questions.length) return { blocks: questions.map((one) => prose(one.question)), names: ["questions", "answers"] };
  const plan = planOf(row);
  if (plan !== null) return { blocks: [prose(plan)], names: ["plan"] };
  const { edits, names } = editsOf(row.input ?? {}, row.metadata ?? {});
  if (edits.length) return { blocks: edits, names };
  const address = row.input?.url ?? row.metadata?.url;
  if (typeof address === "string") return { blocks: [plain(address)], names: ["url"] };
  // A tool that is judged by its name alone says with its input what it would do.
  const patterns = row.patterns.filter((pattern) => !(pattern === row.permission && membersOf(row, []).length));
  return { blocks: patterns.map((pattern) => plain(pattern)), names: [] };
}

const prose = (text) => ({ texts: [text], lines: text.split("\n").length, body: h("div", { class: "code prose" }, ...reveal(text)) });
const plain = (text, label = null) => ({ label, texts: [text], lines: text.split("\n").length, body: h("pre", { class: "code" }, ...reveal(text)) });

function commandBlock(row, command) {
  const found = row.evaluation?.parts ?? [];
  // Where all of it is one part, a mark on everything marks nothing.
  const painted = found.length === 1 && found[0].text.trim() === command.trim() ? [] : paint(command, found);
  return { texts: [command], lines: command.split("\n").length, tail: command.trimEnd().slice(-TAIL_CHARS), body: h("pre", { class: "code command" }, ...reveal(command, (index) => painted[index])) };
}

/** Where what was judged is not in the command that is shown, it is shown too. */
function judgedAs(row, command) {
  const others = row.patterns.filter((pattern) => !command.includes(pattern));
  return others.length ? [plain(others.join("\n"), "judged as")] : [];
}

/** A class for each position: the innermost part counts, so outer ones are painted first. */
function paint(command, found) {
  const classes = new Array(command.length);
  const places = [];
  let cursor = 0;
  for (const part of found) {
    const start = placeOf(part.text, command, part.inside ? 0 : cursor);
    if (start < 0) continue;
    if (!part.inside) cursor = start + part.text.length;
    places.push([start, start + part.text.length, part.verdict]);
  }
  places.sort((a, b) => b[1] - b[0] - (a[1] - a[0]) || STRICTNESS[a[2]] - STRICTNESS[b[2]]);
  for (const [start, end, verdict] of places) classes.fill(`part ${verdict}`, start, end);
  return classes;
}

/** Where a part begins: not in the middle of a word, such as `sh` in `install.sh`. */
function placeOf(text, command, from) {
  let start = text ? command.indexOf(text, from) : -1;
  while (start > 0 && /[\w./-]/.test(command[start - 1])) start = command.indexOf(text, start + 1);
  return start;
}

function parts(row) {
  const found = row.evaluation?.parts ?? [];
  if (found.length < 2) return null;
  const waiting = found.filter((part) => part.verdict !== "allow").length;
  return h("details", { class: "parts" },
    h("summary", {}, `${found.length} parts, ${waiting} to be judged by you`),
    h("ul", {}, ...found.map((part) => h("li", { class: part.verdict },
      h("span", { class: `verdict ${part.verdict}` }, { allow: "allowed", ask: "asks", deny: "denied" }[part.verdict]),
      h("code", {}, ...reveal(part.text)),
      part.inside ? h("small", {}, " inside ", h("code", {}, ...reveal(part.inside))) : null,
      part.rules?.length ? h("small", {}, " by ", h("code", {}, part.rules[0].text)) : null))));
}

const EDIT_NAMES = ["file_path", "filePath", "path", "edits", "patch", "patchText", "patch_text", "content", "old_string", "oldString", "oldText", "new_string", "newString", "newText"];

/** Differences, and the names of the members that they show. */
function editsOf(input, metadata) {
  return { edits: differences(input, metadata), names: EDIT_NAMES };
}

function differences(input, metadata) {
  const file = String(input.file_path ?? input.filePath ?? input.path ?? metadata.filepath ?? metadata.path ?? "");
  const patch = input.patch ?? input.patchText ?? input.patch_text ?? metadata.diff ?? metadata.patch;
  const many = Array.isArray(input.edits) ? input.edits : [input];
  const replaced = many
    .map((one) => [one?.old_string ?? one?.oldString ?? one?.oldText, one?.new_string ?? one?.newString ?? one?.newText])
    .filter(([before, after]) => typeof before === "string" && typeof after === "string");
  if (replaced.length) return replaced.map(([before, after], index) => difference(lineDiff(before, after), index ? null : file, [before, after]));
  if (typeof patch === "string" && patch) return [difference(patchLines(patch), file, [patch])];
  const content = input.content ?? metadata.content;
  if (typeof content === "string" && file) {
    return [difference(content.split("\n").map((text) => ({ kind: "came", text })), `writes the whole file ${file}`, [content])];
  }
  return [];
}

function difference(lines, label, texts) {
  const body = h("div", { class: "code diff", role: "group", "aria-label": "what changes" }, ...lines.map(diffLine));
  return { label: label || null, texts: label ? [...texts, label] : texts, lines: lines.length, body };
}

const MARKS = { came: "+", gone: "−", same: " ", gap: "⋯", head: " " };
const SPOKEN = { came: "added: ", gone: "removed: " };

function diffLine(line) {
  const text = reveal(line.text, (index) => (line.from !== undefined && index >= line.from && index < line.to ? "within" : ""));
  return h("div", { class: `line ${line.kind}` },
    h("span", { class: "mark", "aria-hidden": "true" }, MARKS[line.kind]),
    SPOKEN[line.kind] ? h("span", { class: "spoken" }, SPOKEN[line.kind]) : null,
    h("span", { class: "text" }, ...text));
}

function folded(block) {
  const chars = block.texts.reduce((sum, text) => sum + text.length, 0);
  if (block.lines <= CLAMP_LINES && chars <= CLAMP_CHARS) return block.body;
  const wrapper = h("div", { class: "folded" }, block.body);
  const size = block.lines > 1 ? `${block.lines} lines` : `${chars} characters`;
  const more = h("button", { type: "button", class: "unfold", "aria-expanded": "false" }, `Show all of it: ${size}`);
  more.addEventListener("click", () => {
    const isOpen = wrapper.classList.toggle("open");
    more.setAttribute("aria-expanded", String(isOpen));
    more.textContent = isOpen ? "Show less" : `Show all of it: ${size}`;
  });
  if (block.tail) wrapper.append(h("p", { class: "tail" }, "and it ends with ", h("code", {}, "…", ...reveal(block.tail))));
  wrapper.append(more);
  return wrapper;
}

/** The request as it was sent, for whoever wants to see every member. */
function everything(row) {
  const whole = { permission: row.permission, patterns: row.patterns, tool_name: row.tool_name, input: row.input, metadata: row.metadata, tool: row.tool };
  const said = Object.fromEntries(Object.entries(whole).filter(([, value]) => value !== null && value !== undefined));
  const body = h("pre", { class: "code raw" });
  const details = h("details", { class: "everything" }, h("summary", {}, "The whole request"), body);
  details.addEventListener("toggle", () => {
    if (details.open && !body.firstChild) body.append(...reveal(JSON.stringify(said, null, 2)));
  });
  return details;
}
