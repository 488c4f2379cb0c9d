// Start of the page: sign-in, navigation, connection.

import { NoConnection, call, get, onSignedOut } from "./api.js";
import { at, everySecond } from "./clock.js";
import { byId, h, link } from "./dom.js";
import { watchFreezes } from "./frozen.js";
import { Live } from "./live.js";
import { Holding } from "./holding.js";
import { listenToKeys, showHelp } from "./keys.js";
import { offerLock } from "./lock.js";
import { Presence } from "./presence.js";
import { forgetProof } from "./proof.js";
import { renewPush } from "./push.js";
import { Requests } from "./store.js";
import { Telling } from "./telling.js";
import { forgetForWorker } from "./worker-storage.js";
import * as account from "./pages/account.js";
import * as grants from "./pages/grants.js";
import * as inbox from "./pages/inbox.js";
import * as next from "./pages/next.js";
import * as request from "./pages/request.js";
import * as notifications from "./pages/notifications.js";
import * as session from "./pages/session.js";
import * as sessions from "./pages/sessions.js";
import * as signIn from "./pages/sign-in.js";

const PLACES = [
  { pattern: /^\/$/, page: inbox, nav: "/" },
  { pattern: /^\/sessions$/, page: sessions, nav: "/sessions" },
  { pattern: /^\/sessions\/(.+)$/, page: session, nav: "/sessions" },
  { pattern: /^\/requests\/(.+)$/, page: request, nav: "/" },
  { pattern: /^\/next$/, page: next, nav: "/" },
  { pattern: /^\/grants$/, page: grants, nav: "/grants" },
  { pattern: /^\/account$/, page: account, nav: "/account" },
  { pattern: /^\/notifications$/, page: notifications, nav: "/account" },
];
const RETRY_MS = 3000;
const FIRST_COUNT = 8; // requests that a screen shows at once; all of them follow

const app = { me: null, requests: new Requests(), live: null, presence: null, shown: null, go };

async function start() {
  if (location.pathname === "/sign-in") return signIn.show(byId("main"), {});
  // Before the answer says who this is: on a slow connection each round trip counts.
  const first = location.pathname === "/" ? get("/v1/pending", { limit: FIRST_COUNT }).catch(() => null) : null;
  try {
    app.me = await get("/v1/me");
  } catch (error) {
    if (error.status === 401) return signIn.show(byId("main"), { next: location.pathname + location.search + location.hash, text: halfSignedIn(error) });
    if (error instanceof NoConnection) setTimeout(start, RETRY_MS);
    const text = error instanceof NoConnection ? "No connection to the gateway; trying again …" : `Error from the gateway: ${error.message}.`;
    return byId("main").replaceChildren(h("p", { class: "empty" }, text));
  }
  if (app.me.role === "agent") {
    return byId("main").replaceChildren(h("p", { class: "empty" }, "This is an agent's token, which has no inbox. Sign in with a person's token."), h("p", { class: "empty" }, h("button", { class: "button", onclick: () => signOut() }, "Sign out")));
  }
  app.requests.holding = new Holding(app.requests);
  app.live = new Live(app.requests);
  app.presence = new Presence();
  if (app.me.role !== "auditor") new Telling(app.requests);
  onSignedOut(signedOut);
  drawNav();
  app.requests.addEventListener("change", drawNav);
  app.live.addEventListener("state", drawConnection);
  everySecond(drawConnection);
  app.live.addEventListener("lock", ({ detail }) => offerLock(app.requests, detail));
  app.live.start(await first);
  if (app.me.role !== "auditor") app.presence.start();
  const lookAtFreezes = watchFreezes();
  app.requests.addEventListener("frozen", lookAtFreezes);
  listenToKeys({ deck: () => app.shown?.deck ?? null, step: () => app.shown?.step ?? null, go });
  document.addEventListener("click", followLink);
  addEventListener("popstate", () => show());
  if (app.me.role !== "auditor") renewPush(app.me.name).catch(() => {});
  show();
}

/** Go to a part of this page without a reload; `isInstead` leaves no way back to the present one. */
function go(place, { isInstead = false } = {}) {
  const before = placeOf();
  history[isInstead ? "replaceState" : "pushState"](null, "", place);
  if (placeOf() === before) dispatchEvent(new HashChangeEvent("hashchange"));
  else show({ isNew: true });
}

/** Return the address of the shown part. The same request id may be known in several sessions, which the query names. */
function placeOf() {
  return location.pathname.startsWith("/requests/") ? location.pathname + location.search : location.pathname;
}

function followLink(event) {
  const found = event.target.closest?.("a[data-link]");
  if (!found || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(found.getAttribute("href"));
}

function show({ isNew = false } = {}) {
  const place = PLACES.find(({ pattern }) => pattern.test(location.pathname)) ?? PLACES[0];
  if (!isNew && app.shown?.path === placeOf()) return;
  const [, id] = place.pattern.exec(location.pathname) ?? [];
  app.shown?.leave?.();
  const main = byId("main");
  main.replaceChildren();
  scrollTo(0, 0);
  app.shown = { path: placeOf(), nav: place.nav };
  Object.assign(app.shown, place.page.show(main, app, id === undefined ? undefined : decodeURIComponent(id)));
  drawNav();
  if (isNew) main.focus({ preventScroll: true });
}

function drawNav() {
  const count = app.requests.rows.size;
  const places = [["/", "Inbox", count], ["/sessions", "Sessions"], ["/grants", "Grants"], ["/account", app.me.name]];
  const state = JSON.stringify([places, app.shown?.nav]);
  if (byId("nav").dataset.state === state) return;
  byId("nav").dataset.state = state;
  byId("nav").replaceChildren(
    ...places.map(([place, name, number]) => link(place, { "aria-current": app.shown?.nav === place ? "page" : null, class: place === "/account" ? "account" : null, title: place === "/account" ? `Signed in as ${name}` : null }, place === "/account" ? initialAnd(name) : name, number ? h("span", { class: "count", "aria-label": `${number} waiting` }, String(number)) : null)),
    h("button", { type: "button", class: "keys-button", "aria-label": "Keys", title: "Keys (?)", onclick: showHelp }, "?"));
  // The badge of an installed page's icon, if supported.
  navigator.setAppBadge?.(count).catch(() => {});
  document.title = `${count ? `(${count}) ` : ""}${app.shown?.title ?? "Permissions"}`;
}

/** Return a name and its first letter, for which a narrow phone has room. */
function initialAnd(name) {
  return [h("span", { class: "initial", "aria-hidden": "true" }, [...name][0]?.toUpperCase() ?? "?"), h("span", { class: "name" }, name)];
}

const CONNECTION = { connecting: "connecting …", live: "live", asking: "up to date", offline: "reconnecting …" };

function drawConnection() {
  const { state, asOf } = app.live;
  const text = state === "offline" && asOf ? `Reconnecting … last updated at ${at(new Date(asOf).toISOString())}` : CONNECTION[state];
  const box = byId("connection");
  if (box.textContent !== text) box.textContent = text;
  box.dataset.state = state;
}

const halfSignedIn = (error) => error.code === "SIGN_IN_AGAIN" ? "Sign in again: this browser has only the cookie of its sign-in. Possible causes: an update, deleted data of this site, or another program on this machine that has set the cookie." : null;

function signedOut(problem) {
  app.live.end();
  app.shown?.leave?.();
  app.shown = null;
  byId("nav").replaceChildren();
  signIn.show(byId("main"), { next: location.pathname + location.search + location.hash, text: halfSignedIn(problem) ?? "You were signed out." });
}

export async function signOut(next = "/") {
  app.presence?.leave();
  await call("POST", "/v1/sign-out").catch(() => {});
  forgetProof();
  await forgetForWorker();
  location.assign(next);
}

// The service worker opens what a notification is about; a page that is not signed in asks for that first.
navigator.serviceWorker?.addEventListener("message", ({ data }) => {
  if (data?.kind !== "open") return;
  if (app.shown) return go(data.place);
  history.replaceState(null, "", data.place);
  location.reload();
});
start();
