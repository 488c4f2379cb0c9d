// The filter of the list: words and `member:word`, all of which must be met, over what a row has of its request.

import { dangerKinds } from "./effects.js";
import { inOneLine } from "./what.js";

const TERM = /(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/giu;
const MEMBERS = {
  project: (row) => [row.project],
  agent: (row) => [row.agent, row.by],
  session: (row) => [row.session, ...(row.lineage ?? [])],
  permission: (row) => [row.permission, row.tool_name],
  path: (row) => [row.cwd, inOneLine(row)],
  danger: dangerKinds,
};

/** The members that a filter may name. */
export const FILTER_MEMBERS = Object.keys(MEMBERS);

/** Return a function that tells whether a request meets a filter; one without words lets every request through. */
export function filterOf(text) {
  const terms = [...text.matchAll(TERM)].map(([whole, member, quoted, word]) => {
    const name = member?.toLowerCase();
    // Another word before a colon is part of the text: an address, for example.
    return name && Object.hasOwn(MEMBERS, name) ? { name, word: (quoted ?? word).toLowerCase() } : { word: (member ? whole : (quoted ?? word)).toLowerCase() };
  });
  return (row) => terms.every(({ name, word }) => (name ? MEMBERS[name](row).some((one) => one?.toLowerCase().includes(word)) : textOf(row).includes(word)));
}

/** Return every text of a row, in lower case. */
function textOf(row) {
  row.searched ??= [inOneLine(row), row.permission, row.project, row.agent, row.tool_name, ...(row.lineage ?? []), row.session, row.by, row.cwd].filter(Boolean).join("\n").toLowerCase();
  return row.searched;
}
