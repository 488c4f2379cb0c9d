// Requests as lines beside the events, from asking to end, with branches to requests settled by the same answer.

import { LANES } from "./chunks.js";

const STEP_PX = 11;
const SVG = "http://www.w3.org/2000/svg";

export const LANES_PX = LANES * STEP_PX + 6;
const KINDS = { allowed: "good", denied: "bad", rejected: "bad", corrected: "bad", expired: "gone", cancelled: "gone" };

/** Return a class for a request's outcome. */
export const endKind = (outcome) => KINDS[outcome] ?? "gone";

/** Return the drawing beside the event of this version; `near` are the waits around it, by request. */
export function laneDrawing(version, near, height) {
  const svg = make("svg", { class: "lanes", width: LANES_PX, height, "aria-hidden": "true" });
  const middle = height / 2;
  for (const one of near?.values() ?? []) {
    if (version < one.asked || (one.until !== null && version > one.until)) continue;
    const x = 8 + one.lane * STEP_PX;
    const isEnded = one.ended !== null && version > one.ended;
    const top = version === one.asked ? middle : 0;
    const bottom = version === one.ended && one.until <= version ? middle : version === one.until ? 0 : height;
    if (bottom > top) svg.append(make("path", { class: isEnded ? "branch" : "wait", d: `M${x} ${top}V${bottom}` }));
    const cause = version === one.ended && near.get(one.followed);
    if (cause) {
      const from = 8 + cause.lane * STEP_PX;
      svg.append(make("path", { class: "branch", d: `M${from} 0C${from} ${middle} ${x} ${middle * 0.4} ${x} ${middle}` }));
    }
    if (version === one.asked) svg.append(make("circle", { class: "asked", cx: x, cy: middle, r: 4.5 }));
    if (version === one.ended) svg.append(make("circle", { class: `ended ${endKind(one.outcome)}`, cx: x, cy: middle, r: 5 }));
  }
  return svg;
}

export function make(name, members, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [member, value] of Object.entries(members)) element.setAttribute(member, value);
  element.append(...children);
  return element;
}
