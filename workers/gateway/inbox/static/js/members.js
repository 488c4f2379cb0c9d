// The input of a tool call, member by member: what a person has to judge must not hide behind a tool's name.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";

const INLINE_CHARS = 90;
const SHOWN_MEMBERS = 24;

/** What the agent itself says about its call; nobody has checked it. */
export function saidOf(row) {
  const said = row.input?.description ?? row.metadata?.description;
  return typeof said === "string" && said.trim() && saidNames(row).includes("description") ? said.trim() : null;
}

/** `description` is a remark only beside something that runs; in a tool of somebody else's it is an argument. */
function saidNames(row) {
  return row.input?.command !== undefined || row.input?.cmd !== undefined || row.input === null || row.input === undefined ? ["description"] : [];
}

/** Members of the input that are not shown otherwise, as `{name, text, isBrief}`. */
export function membersOf(row, shown) {
  const input = row.input;
  if (input === null || typeof input !== "object" || Array.isArray(input)) return [];
  const left = Object.entries(input).filter(([name, value]) => !shown.includes(name) && !(saidOf(row) !== null && name === "description") && value !== null && value !== "");
  return left.map(([name, value]) => {
    const brief = typeof value === "string" ? value : JSON.stringify(value);
    const isBrief = brief.length <= INLINE_CHARS && !brief.includes("\n");
    return { name, text: isBrief || typeof value === "string" ? brief : JSON.stringify(value, null, 2), isBrief };
  });
}

/** A list of them, and how many there are beyond it. */
export function membersList(members, folded) {
  if (!members.length) return null;
  return h("dl", { class: "members" },
    ...members.slice(0, SHOWN_MEMBERS).map(({ name, text, isBrief }) => h("div", { class: isBrief ? "brief" : "long" },
      h("dt", {}, ...reveal(name)),
      h("dd", {}, isBrief ? h("code", {}, ...reveal(text)) : folded(text)))),
    members.length > SHOWN_MEMBERS ? h("div", {}, h("dt", {}, "…"), h("dd", {}, `and ${members.length - SHOWN_MEMBERS} more, in the whole request`)) : null);
}
