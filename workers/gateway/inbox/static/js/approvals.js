// Several approvers of one request: who has approved it, and how many people are still needed.

import { ago } from "./clock.js";
import { inWords } from "./dangers.js";
import { h } from "./dom.js";
import { LABELS } from "./labels.js";
import { reveal } from "./reveal.js";

const isSame = (name, other) => name?.toLowerCase() === other?.toLowerCase();

/** Return whether this person has approved the request already. */
export function hasApproved(row, me) {
  return row.approvals?.given.some((one) => isSame(one.by, me.name)) ?? false;
}

/** Return whether this person is the asker or the owner of its token, whose yes never counts. */
export function isAsker(row, me) {
  return [row.by, row.owner].some((name) => isSame(name, me.name));
}

/** Return the label of the button that approves, for example `Approve (1 of 2)`. */
export function approveLabel({ approvals: { given, needed } }) {
  return `${LABELS.approve} (${Math.min(given.length + 1, needed)} of ${needed})`;
}

/** Return a mark that is another one after each yes. */
export function approvalsMark(row) {
  return row?.approvals ? row.approvals.given.map((one) => one.by).join("\n") : "";
}

/** Return the line on the approvals of a request; null without a yes, and where one person is enough. `element.tellApprovals` updates its times. */
export function approvalsLine(row, me, element) {
  if (!row.approvals) return null;
  const { given, waits_for: waitsFor } = row.approvals;
  // What is demanded stands among the facts; here is what has come of it.
  if (!given.length) return null;
  const times = given.map(({ at }) => [h("span", {}), at]);
  element.tellApprovals = () => {
    for (const [span, at] of times) if (span.textContent !== ago(at)) span.textContent = ago(at);
  };
  element.tellApprovals();
  const said = given.flatMap(({ by }, index) => [index ? ", " : null, h("b", {}, ...(isSame(by, me.name) ? ["You"] : reveal(by))), ` ${LABELS.approved} `, times[index][0]]);
  return h("p", { class: "approvals", role: "status" }, ...said, ...(waitsFor ? [`; ${LABELS.waits_for} `, ...inWords(waitsFor)] : []), ".");
}
