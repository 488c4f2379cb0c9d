// The first requests of the page, sent while most of the page is still on its way: on a slow connection each round trip
// counts. They carry the proof of the sign-in, which no browser sends by itself, so the page cannot contain their answers.

import { proofHeaders } from "./proof.js";
import { keptOrder } from "./order-setting.js";

const FIRST_COUNT = 3; // requests that a screen shows at once; all of them follow

const begun = new Map();

/** Return the address of the request that the page's address names, else of the first ones; the gateway sorts by danger or by deadline. */
export function firstAddress() {
  const [session, request] = location.hash.slice(1).split("/");
  if (request) return `/v1/pending?session=${session}&request=${request}`;
  return `/v1/pending?limit=${FIRST_COUNT}&sort=${keptOrder() === "deadline" ? "deadline" : "danger"}`;
}

/** Return `{sentMs, response}` of a request that was begun here, once; undefined for others. */
export function takeEarly(address) {
  const found = begun.get(address);
  begun.delete(address);
  return found;
}

function begin(address) {
  const headers = { Accept: "application/json", ...proofHeaders() };
  const response = fetch(address, { headers, cache: "no-store", credentials: "same-origin" });
  // Who takes it hears of its failure.
  response.catch(() => {});
  begun.set(address, { sentMs: Date.now(), response });
}

if (location.pathname === "/") begin(firstAddress());
if (location.pathname !== "/sign-in") begin("/v1/me");
