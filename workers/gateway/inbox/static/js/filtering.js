// The filter of the list: words and `member:word`, all of which must be met, over all of each request.

import { inOneLine } from "./what.js";

const TERM = /(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/giu;
const PATHS = new Set(["path", "folder", "operand"]);
const MEMBERS = {
  project: (row) => [row.project],
  agent: (row) => [row.agent, row.by],
  session: (row) => [row.session, ...(row.lineage ?? [])],
  permission: (row) => [row.permission, row.tool_name],
  path: (row) => [row.cwd, ...sectionsOf(row).filter((one) => PATHS.has(one.kind)).map((one) => one.text)],
  danger: (row) => (row.description?.dangers ?? []).map((one) => one.kind),
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

const sectionsOf = (row) => row.description?.sections ?? [];

/** Return every text of a request, in lower case. */
function textOf(row) {
  row.searched ??= [inOneLine(row), row.permission, row.project, row.agent, row.tool_name, ...(row.lineage ?? []), row.session, row.by, row.cwd, ...row.patterns,
    ...sectionsOf(row).flatMap((one) => [one.label, one.text])].filter(Boolean).join("\n").toLowerCase();
  return row.searched;
}
