// Sign-in by a one-time link, whose code only the button uses up, or with a token.

import { button, h } from "../dom.js";
import { call, get } from "../api.js";
import { keepProof } from "../proof.js";

export function show(main, { next = "/", text = null }) {
  document.title = "Sign in";
  const code = new URLSearchParams(location.search).get("code");
  const status = h("p", { class: "status bad", role: "alert" });
  const signIn = async (body) => {
    status.textContent = "";
    try {
      const { proof } = await call("POST", "/v1/sign-in", { body });
      if (!keepProof(proof)) {
        await call("POST", "/v1/sign-out");
        status.textContent = "This browser keeps no data for this address, which signing in requires: allow it in the browser's settings.";
        return;
      }
      const place = next.startsWith("/") && !next.startsWith("//") && !next.startsWith("/sign-in") ? next : "/";
      history.replaceState(null, "", place); // an address that differs only in its # would not reload
      location.reload();
    } catch (error) {
      status.textContent = said(error, Boolean(body.code));
    }
  };
  main.replaceChildren(h("section", { class: "sign-in" },
    h("h1", {}, code ? "Sign in to the inbox" : "Sign in"),
    text ? h("p", {}, text) : null,
    code ? null : otherWays(),
    code ? byLink(code, signIn) : byToken(signIn),
    status));
}

/** Return links to other ways of signing in; none if there are none, or if they cannot be fetched. */
function otherWays() {
  const place = h("div", {});
  get("/v1/sign-in-ways").then(({ oidc, proxy }) => {
    const way = (label, href) => label ? h("p", {}, h("a", { class: "button once", href }, `Sign in with ${label}`)) : null;
    place.replaceChildren(...[way(oidc, "/v1/oidc/sign-in"), way(proxy, "/v1/proxy/sign-in")].filter(Boolean));
  }, () => {});
  return place;
}

function byLink(code, signIn) {
  return h("div", {},
    h("p", {}, "This link signs this browser in, once. Press the button on the device that you want to use."),
    button("Sign in on this browser", () => signIn({ code }), { kind: "once", autofocus: true }),
    h("p", { class: "hint" }, h("a", { href: "/sign-in" }, "Sign in with a token instead")));
}

function byToken(signIn) {
  const field = h("input", { type: "password", id: "token", name: "token", autocomplete: "current-password", required: true, spellcheck: "false", placeholder: "plt_…" });
  return h("form", { onsubmit: (event) => { event.preventDefault(); signIn({ token: field.value.trim() }); } },
    h("label", { for: "token" }, "Your token"), field,
    h("button", { class: "button once" }, "Sign in"),
    h("p", { class: "hint" }, "An administrator makes one with ", h("code", {}, "permission-ledger token create NAME --role approver"), ". The terminal of the gateway shows a link that signs in once."));
}

function said(error, byLink) {
  if (error.status === 401 || error.status === 404) return byLink ? "This link was used already, or has expired. Ask for a new one, or sign in with a token." : "This token is unknown, or was revoked.";
  if (error.status === 429) return "Too many attempts; wait a little.";
  return `Sign-in failed: ${error.message}.`;
}
