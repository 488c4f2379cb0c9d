// Requests to the gateway: a failure is a Problem with its code, or NoConnection.

import { learnServerTime } from "./clock.js";
import { takeEarly } from "./early.js";
import { proofHeaders } from "./proof.js";

const TIMEOUT_MS = 15_000;

/** A refusal by the gateway: `status`, `code`, and all members of its problem details as `body`. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || `the gateway answered ${status}`);
    this.status = status;
    this.code = body.code ?? "HTTP";
    this.body = body;
  }
}

/** A lost connection: the gateway may or may not have received the request. */
export class NoConnection extends Error {}

const listeners = new Set();

/** Register a callback for each 401: the browser's sign-in has ended. */
export function onSignedOut(listener) {
  listeners.add(listener);
}

export async function call(method, path, { body, query, signal, key, keepalive = false } = {}) {
  const address = withQuery(path, query);
  const early = method === "GET" ? takeEarly(address) : undefined;
  const sentMs = early?.sentMs ?? Date.now();
  const response = await (early ? received(early) : send(method, address, { body, signal, key, keepalive }));
  learnServerTime(response.headers.get("date"), sentMs);
  if (response.ok) return response.status === 204 ? null : json(response);
  const problem = new Problem(response.status, (await json(response).catch(() => null)) ?? {});
  problem.retryAfterMs = Number(response.headers.get("retry-after") ?? 0) * 1000;
  if (problem.status === 401) for (const listener of listeners) listener(problem);
  throw problem;
}

export const get = (path, query, signal) => call("GET", path, { query, signal });

/** Return a path such as `/v1/sessions/{}/asks/{}` with each `{}` filled in. */
export function path(template, ...ids) {
  let index = 0;
  return template.replaceAll("{}", () => encodeURIComponent(ids[index++]));
}

async function received({ response }) {
  try {
    return await response;
  } catch {
    throw new NoConnection("no connection to the gateway");
  }
}

async function send(method, url, { body, signal, key, keepalive }) {
  const headers = { Accept: "application/json", ...proofHeaders() };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (key) headers["Idempotency-Key"] = key;
  const timeout = AbortSignal.timeout(TIMEOUT_MS);
  try {
    return await fetch(url, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
      keepalive,
      signal: signal ? AbortSignal.any([signal, timeout]) : timeout,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new NoConnection("no connection to the gateway");
  }
}

/** Return the response of an event stream, open until `signal` ends it. Raises TypeError without a connection. */
export function openStream(url, signal) {
  const headers = { Accept: "text/event-stream", ...proofHeaders() };
  return fetch(url, { headers, cache: "no-store", credentials: "same-origin", signal });
}

async function json(response) {
  try {
    return await response.json();
  } catch {
    throw new NoConnection("the answer of the gateway broke off");
  }
}

function withQuery(path, query = {}) {
  const said = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return said.length ? `${path}?${new URLSearchParams(said)}` : path;
}
