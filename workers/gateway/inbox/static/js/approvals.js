// Several approvers of one request: who has approved it, and how many people are still needed.

import { ago } from "./clock.js";
import { h } from "./dom.js";
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
  return `Approve (${Math.min(given.length + 1, needed)} of ${needed})`;
}

/** Return a mark that is another one after each yes. */
export function approvalsMark(row) {
  return row?.approvals ? row.approvals.given.map((one) => one.by).join("\n") : "";
}

/** Return the line on the approvals of a request; null where one person is enough. `element.tellApprovals` updates its times. */
export function approvalsLine(row, me, element) {
  if (!row.approvals) return null;
  const { given, missing, among } = row.approvals;
  const times = given.map(({ at }) => [h("span", {}), at]);
  element.tellApprovals = () => {
    for (const [span, at] of times) if (span.textContent !== ago(at)) span.textContent = ago(at);
  };
  element.tellApprovals();
  const said = given.flatMap(({ by }, index) => [index ? ", " : null, h("b", {}, ...(isSame(by, me.name) ? ["You"] : reveal(by))), " approved ", times[index][0]]);
  const of = among.length ? [", of ", ...among.flatMap((name, index) => [index ? ", " : null, h("code", {}, ...reveal(name))])] : [];
  const people = `${missing} ${given.length ? "more " : ""}${missing === 1 ? "person is" : "people are"} needed`;
  return h("p", { class: "approvals", role: "status" }, ...said, given.length ? "; " : null, people, ...of, ".");
}
