// Passkeys: registered and removed on the account page; they sign answers where a rule demands it.

import { membersOf } from "./answer.js";
import { Problem, call, get, path } from "./api.js";
import { at } from "./clock.js";
import { announce, button, h } from "./dom.js";

/** Return the challenge of an answer, signed by a passkey of this person. Raises Problem, NoConnection. */
export async function signAnswer(row, answer) {
  return sign(await call("POST", path("/v1/sessions/{}/asks/{}/challenge", row.session, row.request_id), { body: membersOf({ ...answer, cascade_always: null }, row) }));
}

async function sign(issued) {
  if (!issued.passkeys.length) throw refused("an answer to this must be signed, and you have no passkey here; register one on your account page");
  const credential = await attempt(() => navigator.credentials.get({
    publicKey: {
      challenge: bytes(issued.challenge),
      rpId: issued.rp_id,
      allowCredentials: issued.passkeys.map((id) => ({ type: "public-key", id: bytes(id) })),
      userVerification: "required",
    },
  }));
  const { response } = credential;
  return {
    assertion: {
      credential_id: text(credential.rawId),
      authenticator_data: text(response.authenticatorData),
      client_data: text(response.clientDataJSON),
      signature: text(response.signature),
    },
    nonce: issued.nonce,
    until_ms: issued.until_ms,
  };
}

async function register(name) {
  const issued = await call("POST", "/v1/passkeys/challenge", { body: { action: "register" } });
  const created = await attempt(() => navigator.credentials.create({
    publicKey: {
      challenge: bytes(issued.challenge),
      rp: { id: issued.rp_id, name: "permission-ledger" },
      user: { id: new TextEncoder().encode(issued.person).slice(0, 64), name: issued.person, displayName: issued.person },
      pubKeyCredParams: [-8, -7, -257].map((alg) => ({ type: "public-key", alg })),
      excludeCredentials: issued.passkeys.map((id) => ({ type: "public-key", id: bytes(id) })),
      authenticatorSelection: { userVerification: "required", residentKey: "preferred" },
      attestation: "none",
    },
  }));
  const id = text(created.rawId);
  const response = {
    id, rawId: id, type: created.type,
    response: { clientDataJSON: text(created.response.clientDataJSON), attestationObject: text(created.response.attestationObject) },
  };
  const made = { response, nonce: issued.nonce, until_ms: issued.until_ms };
  const body = { name, ...made };
  if (issued.passkeys.length) {
    // An existing passkey consents to this very one, so that a hijacked browser cannot add a passkey of its own.
    body.consent = await sign(await call("POST", "/v1/passkeys/challenge", { body: { action: "register", made } }));
  }
  return call("POST", "/v1/passkeys", { body });
}

async function remove(id) {
  const issued = await call("POST", "/v1/passkeys/challenge", { body: { action: "remove", credential_id: id } });
  return call("POST", path("/v1/passkeys/{}/remove", id), { body: { consent: await sign(issued) } });
}

/** Append the passkeys to the account page. */
export function passkeys(main) {
  const status = h("p", { class: "status bad", role: "alert" });
  const list = h("ul", { class: "grants", "aria-label": "Your passkeys" });
  const place = h("div", {});
  main.append(h("h2", { class: "spaced" }, "Passkeys"),
    h("p", { class: "hint lead" }, "A rule can demand that an answer is signed with a passkey. It proves that you consented with your device, not that this screen showed you the truth."),
    place, status, list);
  const doing = async (work) => {
    status.textContent = "";
    try {
      await work();
    } catch (error) {
      status.textContent = `Failed: ${error.message}.`;
    }
  };
  const load = () => doing(async () => {
    const { passkeys: own, at: better } = await get("/v1/passkeys");
    place.replaceChildren(better ? elsewhere(better) : registering(doing, load));
    list.replaceChildren(...own.map((one) => h("li", { class: "grant" },
      h("div", { class: "grant-what" }, h("strong", {}, one.name)),
      h("div", { class: "hint grant-who" }, `for ${one.rp_id} · registered ${at(one.at)} by ${one.by} · ${one.used_at ? `last used ${at(one.used_at)}` : "never used"}`),
      h("div", { class: "grant-end" }, button("Remove", () => doing(async () => { await remove(one.credential_id); announce(`Removed the passkey ${one.name}`); await load(); }), { kind: "small", "aria-label": `Remove the passkey ${one.name}` })))));
  });
  load();
}

function elsewhere(better) {
  return h("p", { class: "status warn" }, "Browsers do not support passkeys for IP addresses. Open ", h("a", { href: better }, better), " instead, and sign in there.");
}

function registering(doing, load) {
  const name = h("input", { name: "passkey", required: true, maxlength: "100", autocomplete: "off", placeholder: "laptop" });
  const form = h("form", { class: "find" }, h("label", {}, h("span", {}, "Name of the passkey"), name), h("button", { class: "button small" }, "Register a passkey"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    doing(async () => { const made = await register(name.value.trim()); announce(`Registered the passkey ${made.name}`); form.reset(); await load(); });
  });
  return form;
}

/** Run a passkey operation of the browser; raise its refusal as a Problem. */
async function attempt(ceremony) {
  if (!window.PublicKeyCredential) throw refused("this browser does not support passkeys at this address; they need https, or the name localhost");
  try {
    return await ceremony();
  } catch (error) {
    throw refused(`your device did not sign (${error.name}); nothing was answered`);
  }
}

function refused(detail) {
  return new Problem(403, { code: "PASSKEY_REFUSED", detail });
}

function bytes(base64url) {
  const binary = atob(base64url.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (one) => one.charCodeAt(0));
}

function text(buffer) {
  return btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
