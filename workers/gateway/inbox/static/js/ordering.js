// The order of the list: what cannot be undone and what is dangerous first, then what ends first; by project or agent if somebody wants that.

import { byDeadline } from "./store.js";

const GRAVE = new Set(["runs-downloaded", "privileges", "deletes", "secrets"]);

const WORST_FIRST = ["irreversible", "changes_elsewhere", "changes_here", "reads"];

/** Return the place of a row: the worst effect first, of these a grave danger, then another, then none. */
function dangerOf(row) {
  const found = row.description?.dangers ?? [];
  const danger = found.some(({ kind }) => GRAVE.has(kind)) ? 0 : found.length ? 1 : 2;
  return 3 * Math.max(0, WORST_FIRST.indexOf(row.effect)) + danger;
}

const byDanger = (a, b) => dangerOf(a) - dangerOf(b) || byDeadline(a, b);
const byName = (name) => (a, b) => compare(name(a), name(b)) || byDanger(a, b);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** The orders by name, each with its text for the head of the list. */
export const ORDERS = {
  danger: { text: "danger", compare: byDanger },
  deadline: { text: "deadline", compare: byDeadline },
  project: { text: "project", compare: byName((row) => row.project ?? "") },
  agent: { text: "agent", compare: byName((row) => row.agent ?? row.by) },
};
