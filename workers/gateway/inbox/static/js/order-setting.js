// The order of the list that this browser keeps.

import { ifAllowed } from "./device.js";

const SETTING = "permission-ledger.order";
const NAMES = ["danger", "deadline", "project", "agent"];

/** Return the name of the order that this browser keeps. */
export function keptOrder() {
  const kept = ifAllowed(() => localStorage.getItem(SETTING));
  return NAMES.includes(kept) ? kept : "danger";
}

export function keepOrder(name) {
  ifAllowed(() => localStorage.setItem(SETTING, name));
}
