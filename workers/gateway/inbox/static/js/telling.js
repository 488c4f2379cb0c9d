// Browser notifications of new requests while the page is in the background, if the person enabled them. The notifier
// serves phones; this serves a computer on which the page is open.

import { ifAllowed } from "./device.js";
import { plain } from "./reveal.js";
import { inOneLine } from "./what.js";

const WANTED = "permission-ledger.tell";
const ONE_BY_ONE = 3;

export const canTell = () => "Notification" in window;
export const isRefused = () => Notification.permission === "denied";
export const isTelling = () => canTell() && Notification.permission === "granted" && ifAllowed(() => localStorage.getItem(WANTED)) === "yes";

/** Ask the browser for permission; return whether it was given. */
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
    // Requests that were pending when the page was opened are not new.
    this.known = requests.isFilled ? new Set(requests.rows.keys()) : null;
    this.open = new Map();
    requests.addEventListener("change", () => this.#changed());
  }

  #changed() {
    const { rows } = this.requests;
    for (const [key, one] of this.open) if (!rows.has(key)) this.#close(key, one);
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
      // Some phones support notifications only for installed pages with a service worker.
      if (!(error instanceof TypeError)) throw error;
      endTelling();
    }
  }

  #close(key, one) {
    one.close();
    this.open.delete(key);
  }
}
