// Sending an answer: repeated until the gateway confirms it or names an earlier answer. Only then is it shown as done.

import { membersOf } from "./answer.js";
import { NoConnection, Problem, call, path } from "./api.js";
import { later } from "./load.js";
import { clientId } from "./device.js";
import { forget, remember } from "./undelivered.js";

const RETRY_MS = [1000, 2000, 4000, 8000];
const AT_ONCE = 100; // the gateway takes 200, and browsers send at most 64 kB after the page was closed
const STATUS_OF = { IN_DOUBT: 503, UNREACHABLE: 503, BUSY: 429, RATE_LIMITED: 429 };

/**
 * Send an answer. `tell(phase, detail)` is called with `sending`, `unsure` (no connection; retrying), `settled` (the
 * row), `agreed` (a yes that needs those of more people; the row) or `failed` (a Problem). Answers are idempotent, so repeating one after a lost connection is safe.
 */
export async function send(row, answer, tell) {
  remember(row, answer);
  tell("sending", answer);
  let signed = null;
  for (let attempt = 0; ; attempt += 1) {
    try {
      const result = await reply(row, answer, signed);
      forget(row);
      return tellResult(result, tell);
    } catch (failure) {
      let error = failure;
      if (error.code === "PASSKEY_REQUIRED" && !signed) {
        try {
          signed = await (await later()).TOOLS.signAnswer(row, answer);
          continue;
        } catch (unsigned) {
          error = unsigned;
        }
      }
      if (!isPassing(error)) {
        forget(row);
        return tellEnd(error, tell);
      }
      tell("unsure", answer);
      await connectionOr(error.retryAfterMs || RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)]);
    }
  }
}

/**
 * Send one answer to several requests. `tell(row, phase, detail)` is called for each, as by `send`; one that fails does
 * not keep the others, and those that may pass are sent again.
 */
export async function sendMany(rows, answer, tell) {
  let left = rows;
  for (const row of rows) {
    remember(row, answer);
    tell(row, "sending", answer);
  }
  for (let attempt = 0; left.length; attempt += 1) {
    let wait = RETRY_MS[Math.min(attempt, RETRY_MS.length - 1)];
    const ends = [];
    for (const some of portions(left)) {
      try {
        ends.push(...(await replies(some, answer)));
      } catch (error) {
        if (isPassing(error)) wait = error.retryAfterMs || wait;
        ends.push(...some.map((row) => [row, error]));
      }
    }
    left = ends.filter(([row, result]) => !ended(row, result, tell)).map(([row]) => row);
    for (const row of left) tell(row, "unsure", answer);
    if (left.length) await connectionOr(wait);
  }
}

/** Return each row with its result: an answered request, or an error of its own. */
async function replies(rows, answer) {
  const requests = rows.map((row) => {
    const { session, request_id, digest } = row;
    return { session, request_id, digest, ...(answer.patternsOf ? { patterns: membersOf(answer, row).patterns ?? null } : {}) };
  });
  const { replies: results } = await call("POST", "/v1/pending/replies", { body: { ...membersOf(answer), requests }, keepalive: true });
  return rows.map((row, index) => {
    const one = results[index];
    return [row, "detail" in one ? new Problem(STATUS_OF[one.code] ?? 409, one) : one];
  });
}

/** Tell the end of one answer of many; return false if it must be sent again. */
function ended(row, result, tell) {
  if (isPassing(result)) return false;
  forget(row);
  if (result instanceof Error) tellEnd(result, (phase, detail) => tell(row, phase, detail));
  else tellResult(result, (phase, detail) => tell(row, phase, detail));
  return true;
}

function portions(rows) {
  const found = [];
  for (let from = 0; from < rows.length; from += AT_ONCE) found.push(rows.slice(from, from + AT_ONCE));
  return found;
}

function reply(row, answer, signed) {
  const body = { ...membersOf(answer, row), digest: row.digest };
  if (signed) body.signed = signed;
  if (row.answering === "lock-holder") body.client_id = clientId();
  // keepalive: the answer is sent even if the page is closed meanwhile.
  return call("POST", path("/v1/sessions/{}/asks/{}/reply", row.session, row.request_id), { body, keepalive: true });
}

function isPassing(error) {
  return error instanceof NoConnection || (error instanceof Problem && [429, 502, 503, 504].includes(error.status));
}

/** Tell an outcome, or a yes that is recorded and that those of more people must join. */
function tellResult(result, tell) {
  return tell(result.outcome === null && result.approvals ? "agreed" : "settled", result);
}

function tellEnd(error, tell) {
  if (!(error instanceof Problem)) throw error;
  if (error.code === "ALREADY_ANSWERED") {
    const { outcome, reply: said, by, at_ms: ms } = error.body;
    return tell("settled", { outcome, reply: said, by, at: ms ? new Date(ms).toISOString() : null, wasFirst: true });
  }
  if (error.code === "PERMISSION_STALE") return tell("settled", { outcome: "expired" });
  if (error.code === "UNKNOWN_REQUEST" || error.code === "SESSION_CLOSED") return tell("settled", { outcome: "cancelled", message: error.message });
  return tell("failed", error);
}

function connectionOr(ms) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      removeEventListener("online", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    addEventListener("online", done);
  });
}
