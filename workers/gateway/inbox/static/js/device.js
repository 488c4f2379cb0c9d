// This tab as a client of the ledger.

const CLIENT = "permission-ledger.client";
let fallback = null;

/** Return the result of `use`; undefined in browsers without storage, where answering must still work. */
export function ifAllowed(use) {
  try {
    return use();
  } catch {
    return null;
  }
}

/** Return an id that survives a reload, but not the tab. */
export function clientId() {
  const kept = ifAllowed(() => sessionStorage.getItem(CLIENT)) ?? fallback;
  if (kept) return kept;
  fallback = `inbox-${[...crypto.getRandomValues(new Uint8Array(9))].map((byte) => byte.toString(36).padStart(2, "0")).join("")}`;
  ifAllowed(() => sessionStorage.setItem(CLIENT, fallback));
  return fallback;
}
