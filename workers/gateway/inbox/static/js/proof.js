// The second proof of this browser's sign-in. The browser sends the cookie to every port of this host, also to servers
// that are not the gateway; this storage belongs to one address, and only api.js sends its content, as a header.

import { ifAllowed } from "./device.js";

const PROOF = "permission-ledger.proof";

/** Return the headers that a call needs besides its cookie. */
export function proofHeaders() {
  const proof = ifAllowed(() => localStorage.getItem(PROOF));
  return proof ? { "Permission-Ledger-Proof": proof } : {};
}

/** Store the proof of a sign-in; return whether this browser keeps it. */
export function keepProof(proof) {
  ifAllowed(() => localStorage.setItem(PROOF, proof));
  return ifAllowed(() => localStorage.getItem(PROOF)) === proof;
}

export function forgetProof() {
  ifAllowed(() => localStorage.removeItem(PROOF));
}
