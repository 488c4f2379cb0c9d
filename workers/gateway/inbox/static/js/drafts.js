// What a person has written and not sent: it outlives the card, a reload and somebody else's answer, until it is sent or
// discarded. It is kept in this tab alone.

import { ifAllowed } from "./device.js";

const KEPT = "permission-ledger.drafts";
const KEPT_MOST = 50;
const TEXT_CHARS = 20_000;

export class Drafts extends EventTarget {
  constructor() {
    super();
    this.all = new Map();
    const kept = ifAllowed(() => JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")) ?? [];
    // Groups are numbered anew in each page: a text for one belongs to no group of this page.
    for (const [key, draft] of kept) this.all.set(key.startsWith("group\n") ? `left ${crypto.getRandomValues(new Uint32Array(1))[0]}\n${key}` : key, draft);
  }

  of(key) {
    if (!this.all.has(key)) this.all.set(key, { mode: null, text: "", choice: null });
    return this.all.get(key);
  }

  /** Keep what was just written for a request; `what` names it after it has gone. */
  keep(key, what) {
    Object.assign(this.of(key), { isWritten: true, what });
    this.#save();
  }

  drop(key) {
    if (!this.all.delete(key)) return;
    this.#save();
  }

  /** Return `[key, draft]` of all that was written and can still be sent or copied. */
  written() {
    return [...this.all].filter(([, draft]) => draft.isWritten && textOf(draft));
  }

  #save() {
    const kept = this.written().filter(([, draft]) => textOf(draft).length <= TEXT_CHARS).slice(-KEPT_MOST);
    ifAllowed(() => sessionStorage.setItem(KEPT, JSON.stringify(kept)));
    this.dispatchEvent(new Event("change"));
  }
}

/** Return what a person wrote: instructions, or an edited input. */
export function textOf(draft) {
  return (draft.mode === "edit" ? draft.edited : draft.text?.trim()) || draft.text?.trim() || draft.edited || "";
}
