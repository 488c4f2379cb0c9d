// The unconfirmed answers of this tab. After a reload while one is in flight it is reported, and not sent again.

import { ifAllowed } from "./device.js";

const UNDELIVERED = "permission-ledger.undelivered";

export function remember(row, answer) {
  const all = undelivered();
  all[`${row.session}\n${row.request_id}`] = { reply: answer.reply };
  ifAllowed(() => sessionStorage.setItem(UNDELIVERED, JSON.stringify(all)));
}

export function forget(row) {
  const all = undelivered();
  delete all[`${row.session}\n${row.request_id}`];
  ifAllowed(() => sessionStorage.setItem(UNDELIVERED, JSON.stringify(all)));
}

/** Return this tab's unconfirmed answers, by session, line feed, request. */
export function undelivered() {
  return ifAllowed(() => JSON.parse(sessionStorage.getItem(UNDELIVERED) ?? "{}")) ?? {};
}

/** Forget the unconfirmed answers after they were reported. */
export function forgetUndelivered() {
  ifAllowed(() => sessionStorage.removeItem(UNDELIVERED));
}
