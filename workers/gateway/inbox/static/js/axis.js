// The time axis of a session: a window of its events side by side and, above them, the waits from asking to end with
// their deadlines and branches. The space between two events stands for the time between them.

import { at, serverNow, spell } from "./clock.js";
import { kindOf } from "./events.js";
import { endKind, make } from "./lanes.js";

const EVENT_PX = 11; // minimum distance, so that a finger hits the intended event
const SIDE_PX = 8; // half of a slider's thumb, so that thumb and cursor are aligned
const LANE_PX = 13;
const TOP_PX = 8;
const TICKS_PX = 15;
const LABELS_PX = 17;
const LABEL_EVERY_PX = 112;
const EDGE_SHARE = 0.12; // the window moves when the cursor is this near to its end
const AHEAD_MS_MAX = 30 * 86_400_000;
const TALL = { quiet: 6, grant: 10 };

export class Axis {
  /** `onpick(version)` is called with the pressed event. */
  constructor({ onpick }) {
    this.svg = make("svg", { class: "axis", "aria-hidden": "true" });
    this.svg.addEventListener("click", (event) => onpick(this.#versionAt(event.offsetX)));
    this.lanes = 1;
    this.from = 1;
    this.to = 1;
  }

  /** Width on the right for the time ahead, in px. */
  get aheadPx() {
    return this.hasAhead ? Math.max(58, Math.min(150, this.width * 0.13)) : 0;
  }

  /** Set the window around a version (null: now) of `total` events; an open session has time ahead. */
  look(version, total, isOpen) {
    this.width = this.svg.clientWidth || 300;
    const count = Math.max(12, Math.floor((this.width - 2 * SIDE_PX - 60) / EVENT_PX));
    const middle = version ?? total;
    const edge = Math.floor(count * EDGE_SHARE);
    const isInside = this.count === count && middle >= this.from + edge && middle <= this.to - edge;
    if (total <= count) this.from = 1;
    else if (version === null) this.from = total - count + 1;
    else if (!isInside) this.from = Math.max(1, Math.min(total - count + 1, middle - Math.floor(count / 2)));
    this.count = count;
    this.to = Math.min(total, this.from + count - 1);
    this.hasAhead = isOpen && this.to === total;
    this.isWhole = total <= count;
    return [this.from, this.to];
  }

  /** Draw the window: `entryAt(version)` returns an event of the log if it is loaded, `waits` are the waits in it. */
  draw({ version, total, entryAt, waits }) {
    this.lanes = Math.max(this.lanes, ...waits.map((one) => one.lane + 1));
    const height = TOP_PX + this.lanes * LANE_PX + TICKS_PX + LABELS_PX;
    this.svg.setAttribute("height", height);
    const times = [];
    for (let one = this.from; one <= this.to; one += 1) times.push(Date.parse(entryAt(one)?.at ?? "") || null);
    const byId = new Map(waits.map((one) => [one.request_id, one]));
    const parts = [
      ...this.#ahead(height),
      ...waits.filter((one) => byId.has(one.followed)).map((one) => this.#branch(byId.get(one.followed), one)),
      ...waits.flatMap((one) => this.#wait(one, times, version ?? total)),
      ...this.#ticks(entryAt, height),
      ...this.#labels(times, height),
      ...this.#cursor(version ?? total, version === null, height),
    ];
    this.svg.replaceChildren(...parts.filter(Boolean));
  }

  #x(version) {
    const span = this.width - 2 * SIDE_PX - this.aheadPx;
    return SIDE_PX + ((version - this.from) / Math.max(1, this.to - this.from)) * span;
  }

  #versionAt(x) {
    const span = this.width - 2 * SIDE_PX - this.aheadPx;
    const share = Math.max(0, Math.min(1, (x - SIDE_PX) / Math.max(1, span)));
    return Math.round(this.from + share * (this.to - this.from));
  }

  #y(lane) {
    return TOP_PX + (lane + 0.5) * LANE_PX;
  }

  /** Return the position of a time: between the events around it, or ahead of the last one; null outside the window. */
  #xOfTime(ms, times) {
    if (times.length === 0 || times[0] === null || ms < times[0]) return null;
    for (let index = 0; index + 1 < times.length; index += 1) {
      const [left, right] = [times[index], times[index + 1]];
      if (left === null || right === null) return null;
      if (ms <= right) return this.#x(this.from + index + (right > left ? (ms - left) / (right - left) : 1));
    }
    if (!this.hasAhead) return null;
    // A logarithmic scale shows seconds and days side by side.
    const share = Math.log1p(Math.max(0, ms - serverNow()) / 1000) / Math.log1p(AHEAD_MS_MAX / 1000);
    return this.#x(this.to) + Math.min(1, share) * (this.aheadPx - 4);
  }

  #ahead(height) {
    if (!this.hasAhead) return [];
    const x = this.#x(this.to);
    return [make("rect", { class: "ahead", x, y: 0, width: this.width - x, height: height - LABELS_PX }), make("text", { class: "label", x: this.width - 4, y: height - 4, "text-anchor": "end" }, "ahead")];
  }

  #wait(one, times, chosen) {
    const y = this.#y(one.lane);
    const begun = one.asked >= this.from;
    const left = begun ? this.#x(one.asked) : 0;
    const isEnded = one.ended !== null && one.ended <= this.to;
    const stillOpen = one.ended === null && this.hasAhead;
    // Deadlines are drawn for requests that are pending, now or at the chosen event, and for expired ones.
    const isDue = one.ended === null || one.outcome === "expired" || (one.asked <= chosen && chosen < one.ended);
    const due = isDue && one.deadline ? this.#xOfTime(Date.parse(one.deadline), times) : null;
    const right = isEnded ? this.#x(one.ended) : stillOpen ? this.#x(this.to) : this.width;
    const parts = [make("path", { class: "wait", d: `M${left} ${y}H${Math.max(left, right)}` })];
    if (stillOpen || (due !== null && due > right)) parts.push(make("path", { class: "until", d: `M${right} ${y}H${due ?? this.width}` }));
    if (due !== null) parts.push(make("path", { class: `deadline${one.outcome === "expired" ? " missed" : ""}`, d: `M${due} ${y - 5}V${y + 5}` }));
    if (stillOpen && due !== null) parts.push(this.#leftText(one, due, y));
    if (begun) parts.push(make("circle", { class: "asked", cx: left, cy: y, r: 4 }));
    if (isEnded && one.ended >= this.from) parts.push(make("circle", { class: `ended ${endKind(one.outcome)}`, cx: right, cy: y, r: 4.5 }));
    return parts;
  }

  /** Draw the time left beside a deadline that lies ahead. */
  #leftText(one, x, y) {
    const ms = Date.parse(one.deadline) - serverNow();
    const isRoom = this.width - x > 46;
    return make("text", { class: "left-text", x: isRoom ? x + 4 : x - 4, y: y + 3.5, "text-anchor": isRoom ? "start" : "end" }, ms > 0 ? spell(ms) : "up");
  }

  #branch(cause, one) {
    if (one.ended === null || one.ended < this.from || one.ended > this.to || cause.ended < this.from) return null;
    const [x, y, toX, toY] = [this.#x(cause.ended), this.#y(cause.lane), this.#x(one.ended), this.#y(one.lane)];
    return make("path", { class: `branch ${endKind(one.outcome)}`, d: `M${x} ${y}C${toX} ${y} ${x} ${toY} ${toX} ${toY}` });
  }

  #ticks(entryAt, height) {
    const bottom = height - LABELS_PX;
    const parts = [make("path", { class: "ground", d: `M0 ${bottom}H${this.width}` })];
    for (let version = this.from; version <= this.to; version += 1) {
      const entry = entryAt(version);
      const kind = entry ? kindOf(entry) : "unknown";
      const tall = TALL[kind] ?? (entry ? TICKS_PX - 3 : 3);
      parts.push(make("rect", { class: `tick ${kind}`, x: this.#x(version) - 2, y: bottom - tall, width: 4, height: tall, rx: 1 }));
    }
    return parts;
  }

  #labels(times, height) {
    const parts = [];
    let last = -Infinity;
    let said = null;
    const end = this.width - this.aheadPx - 64;
    times.forEach((ms, index) => {
      const x = this.#x(this.from + index);
      if (ms === null || x - last < LABEL_EVERY_PX || (x > end && index)) return;
      const text = at(new Date(ms).toISOString());
      if (text === said) return;
      last = x;
      said = text;
      parts.push(make("text", { class: "label", x: index ? x : Math.max(0, x - 4), y: height - 4 }, text));
    });
    return parts;
  }

  #cursor(version, isNow, height) {
    const x = this.#x(version);
    const bottom = height - LABELS_PX;
    return [
      isNow ? null : make("rect", { class: "later", x, y: 0, width: Math.max(0, this.width - x), height: bottom }),
      make("path", { class: "cursor", d: `M${x} 0V${bottom}` }),
    ];
  }
}
