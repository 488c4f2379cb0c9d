// Telling somebody who looks at another window that something waits: by the browser's own notifications, if they want.
// For a phone in a pocket there is the notifier; this is for a computer on which the page is open anyway.

import { ifAllowed } from "./device.js";
import { plain } from "./reveal.js";
import { inOneLine } from "./what.js";

const WANTED = "permission-ledger.tell";
const ONE_BY_ONE = 3;

export const canTell = () => "Notification" in window;
export const isRefused = () => Notification.permission === "denied";
export const isTelling = () => canTell() && Notification.permission === "granted" && ifAllowed(() => localStorage.getItem(WANTED)) === "yes";

/** Ask the browser for leave; whether it was given. */
export async function beginTelling() {
  if ((await Notification.requestPermission()) !== "granted") return false;
  ifAllowed(() => localStorage.setItem(WANTED, "yes"));
  return true;
}

export function endTelling() {
  ifAllowed(() => localStorage.removeItem(WANTED));
}

export class Telling {
  constructor(requests) {
    this.requests = requests;
    this.known = null;
    this.open = new Map();
    requests.addEventListener("change", () => this.#changed());
  }

  #changed() {
    const { rows } = this.requests;
    for (const [key, one] of this.open) if (!rows.has(key)) this.#close(key, one);
    // What waited when the page was opened is no news.
    const fresh = this.known === null ? [] : [...rows].filter(([key]) => !this.known.has(key));
    if (this.requests.isFilled) this.known = new Set(rows.keys());
    if (!fresh.length || !document.hidden || !isTelling()) return;
    if (fresh.length > ONE_BY_ONE) this.#tell("many", `${fresh.length} requests wait for you`, "");
    else for (const [key, row] of fresh) this.#tell(key, `${plain(row.by)} asks: ${plain(row.permission)}`, plain(inOneLine(row)));
  }

  #tell(key, title, body) {
    try {
      const one = new Notification(title, { body, tag: key, icon: "/inbox/icon.svg" });
      one.onclick = () => {
        window.focus();
        one.close();
      };
      this.open.set(key, one);
    } catch (error) {
      // Some phones have notifications only for pages that are installed with a worker of their own.
      if (!(error instanceof TypeError)) throw error;
      endTelling();
    }
  }

  #close(key, one) {
    one.close();
    this.open.delete(key);
  }
}
