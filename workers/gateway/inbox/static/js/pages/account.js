// The signed-in person's account; for administrators, all tokens.

import { call, get, path } from "../api.js";
import { at } from "../clock.js";
import { announce, button, h, link } from "../dom.js";
import { HOLDS_S, holdSeconds, keepHold } from "../holding.js";
import { signOut } from "../main.js";
import { passkeys } from "../passkeys.js";
import { beginTelling, canTell, endTelling, isRefused, isTelling } from "../telling.js";

const ROLES = { approver: "answers, grants and revokes", auditor: "sees everything, changes nothing", agent: "asks", admin: "everything" };

export function show(main, app) {
  const { me } = app;
  const reach = [me.projects.length ? `projects ${me.projects.join(", ")}` : null, me.sessions.length ? `sessions ${me.sessions.join(", ")}` : null].filter(Boolean).join("; ");
  main.append(h("h1", {}, me.name), h("p", { class: "hint lead" }, `Role ${me.role}: ${ROLES[me.role]}. Access to ${reach || "all projects"}.`),
    signingOut());
  if (me.role !== "auditor") onThisDevice(main);
  if (me.role !== "auditor") passkeys(main);
  if (me.role === "admin") tokens(main);
  return { title: me.name };
}

function signingOut() {
  const place = h("p", {}, button("Sign out", () => signOut()));
  get("/v1/sign-in-ways").then(({ oidc }) => {
    if (oidc) place.append(" ", button(`Sign out here and at ${oidc}`, () => signOut("/v1/oidc/sign-out")));
  }, () => {});
  return place;
}

/** Return the choice of how long an answer that allows can be taken back. */
function holdChoice() {
  const options = HOLDS_S.map((one) => h("option", { value: String(one), selected: one === holdSeconds() }, one ? `${one} seconds` : "not at all"));
  const field = h("select", {}, ...options);
  field.addEventListener("change", () => keepHold(Number(field.value)));
  return h("p", { class: "lead" }, h("label", {}, "An answer that allows can be taken back for ", field));
}

/** Append the settings of this browser: the time to take an answer back, and the switch for the browser's notifications. */
function onThisDevice(main) {
  const place = h("div", {});
  const draw = () => place.replaceChildren(
    isRefused()
      ? h("p", { class: "hint" }, "This browser blocks notifications of this address; you can change that in its settings.")
      : isTelling()
        ? button("Disable notifications", () => { endTelling(); draw(); })
        : button("Enable notifications", async () => { await beginTelling(); draw(); }));
  main.append(h("h2", { class: "spaced" }, "On this device"), holdChoice(),
    h("p", { class: "lead" }, link("/notifications", {}, "Notifications: push messages, quiet hours, services")));
  if (!canTell()) return;
  draw();
  main.append(h("p", { class: "hint lead" }, "While this page is open in a background tab, the browser can notify you of new requests within half a minute."), place);
}

function tokens(main) {
  const status = h("p", { class: "status bad", role: "alert" });
  const made = h("div", {});
  const list = h("ul", { class: "grants" });
  const name = h("input", { name: "name", required: true, maxlength: "100", autocomplete: "off" });
  const role = h("select", { name: "role" }, ...Object.entries(ROLES).map(([one, what]) => h("option", { value: one, title: what }, one)));
  const projects = h("input", { name: "projects", autocomplete: "off", placeholder: "all" });
  const expires = h("input", { name: "expires", autocomplete: "off", placeholder: "never, or 30d" });
  const label = (text, control) => h("label", {}, h("span", {}, text), control);
  const form = h("form", { class: "find" }, label("Name", name), label("Role", role), label("Projects", projects), label("Expires", expires), h("button", { class: "button small" }, "Create a token"));
  main.append(h("h2", { class: "spaced" }, "Tokens"), form, status, made, list);

  const attempt = async (work) => {
    status.textContent = "";
    try {
      await work();
    } catch (error) {
      status.textContent = `Failed: ${error.message}.`;
    }
  };
  const load = () => attempt(async () => {
    const { tokens: all } = await get("/v1/tokens");
    list.replaceChildren(...all.filter((one) => one.in_force).map((one) => h("li", { class: "grant" },
      h("div", { class: "grant-what" }, h("strong", {}, one.name), h("span", { class: "permission" }, one.role), one.use === "bearer" ? null : h("small", {}, one.use === "browser" ? "a browser" : "a sign-in link")),
      h("div", { class: "hint grant-who" }, `${one.projects.length ? one.projects.join(", ") : "all projects"} · created ${at(one.at)} by ${one.by} · ${one.expires_at ? `expires ${at(one.expires_at)}` : "never expires"}`),
      h("div", { class: "grant-end" }, button("Revoke", () => attempt(async () => { await call("DELETE", path("/v1/tokens/{}", one.token_id)); announce(`Revoked the token of ${one.name}`); await load(); }), { kind: "small", "aria-label": `Revoke the token of ${one.name}, created ${at(one.at)}` })))));
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      const body = { name: name.value.trim(), role: role.value, projects: projects.value.split(/[\s,]+/).filter(Boolean) };
      if (expires.value.trim()) body.expires = expires.value.trim();
      const { token } = await call("POST", "/v1/tokens", { body, key: crypto.randomUUID?.() ?? String(Math.random()) });
      made.replaceChildren(h("p", { class: "status warn" }, `Token of ${body.name}, shown only once: `, h("code", {}, token)));
      form.reset();
      await load();
    });
  });
  load();
}
