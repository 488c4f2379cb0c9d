// The slider through a session's time, with its events drawn over it.

import { button, h } from "./dom.js";
import { kindOf } from "./events.js";

const COLOURS = { good: "--good", bad: "--bad", asks: "--warn", gone: "--muted", grant: "--accent", quiet: "--line-strong" };
const HEIGHT_PX = 34;
const TALL = new Set(["good", "bad", "asks", "grant", "gone"]);

export class Slider {
  /** `onmove(version)` is called with each version that is chosen; null is now. */
  constructor({ onmove }) {
    this.onmove = onmove;
    this.input = h("input", { type: "range", min: "1", max: "1", step: "1", "aria-label": "Moment in the session, as a version" });
    this.canvas = h("canvas", { class: "strip", height: HEIGHT_PX, "aria-hidden": "true" });
    this.label = h("output", { class: "moment-label" });
    this.now = button("Now", () => this.#choose(null), { kind: "small" });
    this.input.addEventListener("input", () => this.#choose(Number(this.input.value) === this.total ? null : Number(this.input.value)));
    this.element = h("div", { class: "slider" },
      h("div", { class: "slider-head" }, button("‹", () => this.step(-1), { kind: "small quiet", "aria-label": "One event back" }), button("›", () => this.step(1), { kind: "small quiet", "aria-label": "One event on" }), this.label, this.now),
      h("div", { class: "track" }, this.canvas, this.input));
    this.total = 1;
    this.version = null;
  }

  step(by) {
    const next = Math.max(1, Math.min(this.total, (this.version ?? this.total) + by));
    this.#choose(next === this.total ? null : next);
  }

  #choose(version) {
    this.show(version);
    this.onmove(version);
  }

  /** Stand at a version; null is now. */
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

  /** Draw what is known of the events. */
  draw(entries) {
    const width = this.canvas.clientWidth;
    if (!width) return;
    const scale = devicePixelRatio || 1;
    this.canvas.width = width * scale;
    this.canvas.height = HEIGHT_PX * scale;
    const context = this.canvas.getContext("2d");
    context.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const colours = Object.fromEntries(Object.entries(COLOURS).map(([kind, name]) => [kind, style.getPropertyValue(name)]));
    const step = width / Math.max(1, this.total);
    const wide = Math.max(1.5, Math.min(6, step * 0.6));
    for (const entry of entries) {
      const kind = kindOf(entry);
      const tall = TALL.has(kind) ? HEIGHT_PX - 8 : 9;
      context.fillStyle = colours[kind];
      context.fillRect((entry.version - 0.5) * step - wide / 2, HEIGHT_PX - tall, wide, tall);
    }
  }
}
