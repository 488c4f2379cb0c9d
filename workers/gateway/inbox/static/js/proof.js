// The second proof of this browser's sign-in. The cookie goes to every port of this host, also to servers that are not the
// gateway; what is in this storage belongs to this one address and goes out only as the header that api.js sets.

import { ifAllowed } from "./device.js";

const PROOF = "permission-ledger.proof";

/** The headers that a call needs beside its cookie. */
export function proofHeaders() {
  const proof = ifAllowed(() => localStorage.getItem(PROOF));
  return proof ? { "Permission-Ledger-Proof": proof } : {};
}

/** Keep what signing in gave; whether this browser keeps it. */
export function keepProof(proof) {
  ifAllowed(() => localStorage.setItem(PROOF, proof));
  return ifAllowed(() => localStorage.getItem(PROOF)) === proof;
}

export function forgetProof() {
  ifAllowed(() => localStorage.removeItem(PROOF));
}
