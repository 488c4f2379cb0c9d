// The slider through a session's time: an axis of the nearby events, and a strip of the whole session.

import { Axis } from "./axis.js";
import { button, h } from "./dom.js";

const BARS = [["asked", "--warn"], ["allowed", "--good"], ["refused", "--bad"], ["lapsed", "--muted"], ["by_rule", "--line-strong"]];
const STRIP_PX = 22;
export const BARS_COUNT = 300;

export class Slider {
  /** `onmove(version)` is called with each chosen version; null is now. */
  constructor({ onmove }) {
    this.onmove = onmove;
    this.axis = new Axis({ onpick: (version) => this.#choose(version === this.total ? null : version) });
    this.input = h("input", { type: "range", min: "1", max: "1", step: "1", "aria-label": "Moment in the session, as a version" });
    this.strip = h("canvas", { class: "strip", height: STRIP_PX, "aria-hidden": "true" });
    this.near = h("div", { class: "near", "aria-hidden": "true" });
    this.label = h("output", { class: "moment-label" });
    this.now = button("Now", () => this.#choose(null), { kind: "small" });
    this.whole = h("div", { class: "whole" }, this.strip, this.near);
    this.input.addEventListener("input", () => this.#choose(Number(this.input.value) === this.total ? null : Number(this.input.value)));
    this.element = h("div", { class: "slider" },
      h("div", { class: "slider-head" }, button("‹", () => this.step(-1), { kind: "small quiet", "aria-label": "One event back" }), button("›", () => this.step(1), { kind: "small quiet", "aria-label": "One event on" }), this.label, this.now),
      this.axis.svg,
      h("div", { class: "track" }, this.whole, this.input));
    this.total = 1;
    this.version = null;
    this.bars = [];
  }

  step(by) {
    const next = Math.max(1, Math.min(this.total, (this.version ?? this.total) + by));
    this.#choose(next === this.total ? null : next);
  }

  #choose(version) {
    this.show(version);
    this.onmove(version);
  }

  /** Move to a version; null is now. */
  show(version) {
    this.version = version;
    this.input.value = String(version ?? this.total);
    this.now.setAttribute("aria-pressed", String(version === null));
    this.input.setAttribute("aria-valuetext", version === null ? "now" : `version ${version} of ${this.total}`);
  }

  say(text) {
    this.label.textContent = text;
  }

  grow(total) {
    this.total = Math.max(1, total);
    this.input.max = String(this.total);
    this.show(this.version);
  }

  /** Return the first and last version on the axis around the slider's position. */
  look(isOpen) {
    const near = this.axis.look(this.version, this.total, isOpen);
    this.whole.hidden = this.axis.isWhole;
    // If the axis shows the whole session, thumb and cursor are aligned.
    this.input.style.width = this.axis.isWhole ? `${this.axis.width - this.axis.aheadPx}px` : "";
    const span = Math.max(1, this.total - 1);
    this.near.style.left = `${((near[0] - 1) / span) * 100}%`;
    this.near.style.width = `${((near[1] - near[0]) / span) * 100}%`;
    return near;
  }

  /** Draw the axis from the loaded events and waits. */
  draw(chunks) {
    const entryAt = (version) => chunks.at(version)?.entry;
    this.axis.draw({ version: this.version, total: this.total, entryAt, waits: chunks.waitsBetween(this.axis.from, this.axis.to) });
  }

  /** Draw the whole session: `bars` of equal length, each with its counts of events by kind. */
  drawWhole(bars) {
    this.bars = bars;
    const width = this.element.clientWidth ? this.strip.clientWidth : 0;
    if (!width || !bars.length) return;
    const scale = devicePixelRatio || 1;
    this.strip.width = width * scale;
    this.strip.height = STRIP_PX * scale;
    const context = this.strip.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const most = Math.max(1, ...bars.map((bar) => Object.values(bar).reduce((sum, count) => sum + count, 0)));
    const step = width / bars.length;
    bars.forEach((bar, index) => {
      let y = STRIP_PX;
      for (const [kind, colour] of BARS) {
        if (!bar[kind]) continue;
        // Requests to people stay visible beside hundreds of calls that rules decided.
        const height = Math.max(kind === "by_rule" ? 1 : 3, (bar[kind] / most) * (STRIP_PX - 4));
        context.fillStyle = style.getPropertyValue(colour);
        context.fillRect(index * step, y - height, Math.max(1, step - 0.5), height);
        y -= height;
      }
    });
  }
}
