// Requests as lines beside the events: from the question to its end, with branches where one answer took others along.

const LANES_MAX = 5;
const STEP_PX = 12;
const SVG = "http://www.w3.org/2000/svg";
const ENDS = { replied: true, expired: true, cancelled: true };

export const LANES_PX = LANES_MAX * STEP_PX + 10;

/** Intervals by chunk of `size` versions: `{id, from, to, lane, end, follows}` of requests that waited. */
export function intervals(entries, size) {
  const open = new Map();
  const all = [];
  let last = 0;
  for (const { version, type, event } of entries) {
    last = version;
    const id = event.request_id;
    if (type === "asked" && event.verdict === "ask") {
      const one = { id, from: version, to: null, end: null, tail: 0 };
      open.set(id, one);
      all.push(one);
    } else if (ENDS[type] && open.has(id)) {
      const one = open.get(id);
      Object.assign(one, { to: version, end: type === "replied" ? event.outcome : type, tail: version });
      const cause = event.cause?.request_id && open.get(event.cause.request_id);
      if (cause) Object.assign(one, { follows: cause });
      if (cause) cause.tail = version;
    }
  }
  const free = new Array(LANES_MAX).fill(0);
  for (const one of all) {
    const until = Math.max(one.to ?? last, one.tail);
    const lane = free.findIndex((taken) => taken < one.from);
    one.lane = lane < 0 ? LANES_MAX - 1 : lane;
    free[one.lane] = Math.max(free[one.lane], until);
    one.until = until;
  }
  return byChunk(all, size);
}

function byChunk(all, size) {
  const found = new Map();
  for (const one of all) {
    for (let index = Math.floor((one.from - 1) / size); index <= Math.floor((one.until - 1) / size); index += 1) {
      if (!found.has(index)) found.set(index, []);
      found.get(index).push(one);
    }
  }
  return found;
}

const KINDS = { allowed: "good", rejected: "bad", corrected: "bad", expired: "gone", cancelled: "gone" };

/** The drawing beside the event of this version. */
export function laneDrawing(version, near, height) {
  const svg = make("svg", { class: "lanes", width: LANES_PX, height, "aria-hidden": "true" });
  const middle = height / 2;
  for (const one of near ?? []) {
    if (version < one.from || version > one.until) continue;
    const x = 8 + one.lane * STEP_PX;
    const isEnded = one.to !== null && version > one.to;
    const top = version === one.from ? middle : 0;
    const bottom = version === one.to && one.tail <= version ? middle : version === one.until && one.to !== null ? 0 : height;
    if (bottom > top) svg.append(make("path", { class: isEnded ? "branch" : "wait", d: `M${x} ${top}V${bottom}` }));
    if (version === one.to && one.follows) {
      const from = 8 + one.follows.lane * STEP_PX;
      svg.append(make("path", { class: "branch", d: `M${from} 0C${from} ${middle} ${x} ${middle * 0.4} ${x} ${middle}` }));
    }
    if (version === one.from) svg.append(make("circle", { class: "asked", cx: x, cy: middle, r: 4.5 }));
    if (version === one.to) svg.append(make("circle", { class: `ended ${KINDS[one.end] ?? "gone"}`, cx: x, cy: middle, r: 5 }));
  }
  return svg;
}

export function make(name, members) {
  const element = document.createElementNS(SVG, name);
  for (const [member, value] of Object.entries(members)) element.setAttribute(member, value);
  return element;
}
