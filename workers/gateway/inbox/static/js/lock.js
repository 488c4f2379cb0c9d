// The input lock of a session in which only its holder may answer: its holder, requesting it, handing it over.

import { call, get, path } from "./api.js";
import { clientId } from "./device.js";

const LOOK_MS = 1000;
const COMES_WITHIN_MS = 14_000; // a holder who does not respond keeps it for 10 s

/** Return `{name, since}` of the client that holds it; null if none does. */
export async function lockHolder(session) {
  const { clients, lock } = await get(path("/v1/sessions/{}", session));
  return (clients ?? []).find((one) => one.client_id === lock) ?? null;
}

/** Take the lock or request it; `{held}` tells which. Only a connected client can do so. */
export async function askForLock(session) {
  await call("PUT", path("/v1/sessions/{}/clients/{}", session, clientId()), { body: {} });
  return call("POST", path("/v1/sessions/{}/lock", session), { body: { client_id: clientId() } });
}

/** Show a request for the lock of a session on its cards if this device holds it, with a button to hand it over. */
export async function offerLock(requests, { session, by, event }) {
  const to = event?.client_id;
  if (!to || to === clientId()) return;
  const { lock } = await get(path("/v1/sessions/{}", session)).catch(() => ({}));
  if (lock !== clientId()) return;
  const handOver = () => call("POST", path("/v1/sessions/{}/lock/pass", session), { body: { client_id: clientId(), to } })
    .then(() => say(`${by} may answer here now.`), (problem) => say(`Not handed over: ${problem.message}.`));
  const say = (note, offer = null) => {
    for (const [key, row] of requests.rows) {
      const phase = requests.local.get(key)?.phase ?? "waiting";
      if (row.session === session && phase === "waiting") requests.setLocal(key, { phase, note, offer });
    }
  };
  say(`${by} asks for the input lock of this session; it passes automatically in 10 s. `, { text: "Hand over the lock", act: handOver });
}

/** Wait for the lock; return whether it came in time. */
export async function lockComes(session, signal) {
  const until = performance.now() + COMES_WITHIN_MS;
  while (performance.now() < until) {
    const { lock } = await get(path("/v1/sessions/{}", session), {}, signal);
    if (lock === clientId()) return true;
    await new Promise((done) => setTimeout(done, LOOK_MS));
  }
  return false;
}
