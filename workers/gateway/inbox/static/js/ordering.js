// The order of the list: what cannot be undone and what is dangerous first, then what ends first; by project or agent if
// somebody wants that.

import { byEffect } from "./effects.js";
import { byDeadline } from "./store.js";

const byDanger = (a, b) => byEffect(a, b) || byDeadline(a, b);
const byName = (name) => (a, b) => compare(name(a), name(b)) || byDanger(a, b);
const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

/** The orders by name, each with its text for the head of the list. */
export const ORDERS = {
  danger: { text: "danger", compare: byDanger },
  deadline: { text: "deadline", compare: byDeadline },
  project: { text: "project", compare: byName((row) => row.project ?? "") },
  agent: { text: "agent", compare: byName((row) => row.agent ?? row.by) },
};
