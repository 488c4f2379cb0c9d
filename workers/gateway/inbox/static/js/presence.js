// Presence: a page that is visible and was used in the last minutes renews its presence. An unused page does not, so
// that requests get the long deadline and people get a notification.

import { call, path } from "./api.js";
import { clientId } from "./device.js";

const RENEW_MS = 10_000;
const USED_WITHIN_MS = 5 * 60_000;
const HIDDEN_LEAVE_MS = 3000;
const USES = ["pointerdown", "pointermove", "keydown", "wheel", "touchstart", "focus"];

class Presence {
  constructor() {
    this.places = new Set(["/v1/clients/{}"]);
    this.present = new Set();
    this.usedAt = performance.now();
  }

  start() {
    for (const use of USES) addEventListener(use, () => this.#used(), { passive: true, capture: true });
    document.addEventListener("visibilitychange", () => this.#visible());
    addEventListener("pagehide", () => this.leave());
    addEventListener("pageshow", (event) => { if (event.persisted) this.#renew(); });
    setInterval(() => this.#renew(), RENEW_MS);
    this.#renew();
  }

  /** Be present in a session too, as long as its page is open; return a function that ends it. */
  inSession(session) {
    const place = `${path("/v1/sessions/{}", session)}/clients/{}`;
    this.places.add(place);
    this.#renew();
    return () => {
      this.places.delete(place);
      this.#leave(place);
    };
  }

  leave() {
    for (const place of this.present) this.#leave(place);
  }

  get isThere() {
    return !document.hidden && performance.now() - this.usedAt < USED_WITHIN_MS;
  }

  #used() {
    const was = this.isThere;
    this.usedAt = performance.now();
    if (!was) this.#renew();
  }

  #visible() {
    clearTimeout(this.hiding);
    if (document.hidden) this.hiding = setTimeout(() => this.leave(), HIDDEN_LEAVE_MS);
    else this.#used();
  }

  /** Renew one place after the other: two concurrent renewals would both connect. */
  async #renew() {
    if (!this.isThere) return this.leave();
    if (this.renewing) {
      this.again = true;
      return;
    }
    this.renewing = true;
    for (const place of this.places) {
      if (!this.isThere) break;
      this.present.add(place);
      // A failed renewal is repeated by the next one.
      await call("PUT", path(place, clientId()), { body: {} }).catch(() => {});
    }
    this.renewing = false;
    if (this.again) {
      this.again = false;
      this.#renew();
    }
  }

  #leave(place) {
    if (this.present.delete(place)) call("DELETE", path(place, clientId()), { keepalive: true }).catch(() => {});
  }
}

/** Return the presence of this page, which `start` begins. */
export function pagePresence() {
  return new Presence();
}
