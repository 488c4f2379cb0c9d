// The order of the list: what is dangerous first, then what ends first; by project or agent if somebody wants that.

import { byDeadline } from "./store.js";

const GRAVE = new Set(["runs-downloaded", "privileges", "deletes", "secrets"]);

/** Return 0 for a grave danger, 1 for another, 2 for none. */
function dangerOf(row) {
  const found = row.description?.dangers ?? [];
  if (found.some(({ kind }) => GRAVE.has(kind))) return 0;
  return found.length ? 1 : 2;
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
