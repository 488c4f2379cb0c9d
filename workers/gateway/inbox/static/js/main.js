// Start of the page: sign-in, navigation, connection.

import { NoConnection, call, get, onSignedOut } from "./api.js";
import { Cards } from "./cards.js";
import { at, everySecond } from "./clock.js";
import { byId, h, link } from "./dom.js";
import { firstAddress } from "./early.js";
import { watchChangedRules, watchFreezes } from "./frozen.js";
import { Live } from "./live.js";
import { holdingOf } from "./holding.js";
import { listenToKeys, showHelp } from "./keys.js";
import { later } from "./load.js";
import { offerLock } from "./lock.js";
import { pagePresence } from "./presence.js";
import { forgetProof } from "./proof.js";
import { Requests } from "./store.js";
import { wholePage } from "./whole.js";
import { forgetForWorker } from "./worker-storage.js";
import * as inbox from "./pages/inbox.js";

/** The parts of the page by address; `page` is the name of a page in `later.js`. */
const PLACES = [
  { pattern: /^\/$/, page: "inbox", nav: "/" },
  { pattern: /^\/sessions$/, page: "sessions", nav: "/sessions" },
  { pattern: /^\/sessions\/(.+)$/, page: "session", nav: "/sessions" },
  { pattern: /^\/requests\/(.+)$/, page: "request", nav: "/" },
  { pattern: /^\/next$/, page: "next", nav: "/" },
  { pattern: /^\/grants$/, page: "grants", nav: "/grants" },
  { pattern: /^\/account$/, page: "account", nav: "/account" },
  { pattern: /^\/notifications$/, page: "notifications", nav: "/account" },
];
const RETRY_MS = 3000;
const UNREACHED = "No connection to the gateway; trying again …";

const app = { me: null, requests: new Requests(), live: null, presence: null, shown: null, go };
app.requests.cards = new Cards(app.requests);
/** The pages that are there: the others are fetched after the list. */
const pages = { inbox };

async function start() {
  if (location.pathname === "/sign-in") return showSignIn({});
  // Begun by `early.js`.
  const first = location.pathname === "/" ? get(firstAddress()).catch(() => null) : null;
  try {
    app.me = await get("/v1/me");
  } catch (error) {
    if (error.status === 401) return showSignIn({ next: location.pathname + location.search + location.hash, text: halfSignedIn(error) });
    if (error instanceof NoConnection) setTimeout(start, RETRY_MS);
    const text = error instanceof NoConnection ? UNREACHED : `Error from the gateway: ${error.message}.`;
    return byId("main").replaceChildren(h("p", { class: "empty" }, text));
  }
  if (app.me.role === "agent") {
    return byId("main").replaceChildren(h("p", { class: "empty" }, "This is an agent's token, which has no inbox. Sign in with a person's token."), h("p", { class: "empty" }, h("button", { class: "button", onclick: () => signOut() }, "Sign out")));
  }
  app.live = new Live(app.requests);
  onSignedOut(signedOut);
  drawNav();
  app.requests.addEventListener("change", drawNav);
  app.live.addEventListener("state", drawConnection);
  app.live.addEventListener("state", () => fetchLater().catch(ignoreNoConnection));
  app.live.addEventListener("lock", ({ detail }) => offerLock(app.requests, detail));
  const found = await first;
  for (const row of found?.pending ?? []) {
    app.requests.cards.keep(row);
    app.requests.add(row);
  }
  if (found && pages[placeNow().page]) show();
  await wholePage();
  app.requests.holding = holdingOf(app.requests);
  app.presence = pagePresence();
  app.live.start({ isPart: found !== null && (location.hash !== "" || found.cursor !== null || found.among > found.count || found.is_cut) });
  everySecond(drawConnection);
  if (app.me.role !== "auditor") app.presence.start();
  const lookAtFreezes = watchFreezes();
  watchChangedRules();
  app.requests.addEventListener("frozen", lookAtFreezes);
  listenToKeys({ deck: () => app.shown?.deck ?? null, step: () => app.shown?.step ?? null, go });
  document.addEventListener("click", followLink);
  addEventListener("popstate", () => show());
  show();
}

/** Fetch the other pages, unless they are there. Raises NoConnection. */
async function fetchLater() {
  await wholePage();
  const { PAGES, TOOLS } = await later();
  if (pages.account) return;
  Object.assign(pages, PAGES);
  if (!app.me || app.me.role === "auditor") return;
  new TOOLS.Telling(app.requests);
  TOOLS.renewPush(app.me.name).catch(() => {});
}

function ignoreNoConnection(error) {
  if (!(error instanceof NoConnection)) throw error;
}

/** Call `draw` once the other pages are there, if `isWanted()` still holds; meanwhile say so. */
function whenThere(draw, isWanted) {
  const main = byId("main");
  const said = h("p", { class: "empty", role: "status" }, "Loading …");
  main.replaceChildren(said);
  const attempt = () => fetchLater().then(() => { if (isWanted()) draw(); }, (error) => {
    ignoreNoConnection(error);
    said.textContent = UNREACHED;
    if (isWanted()) setTimeout(attempt, RETRY_MS);
  });
  attempt();
}

function showSignIn(options) {
  whenThere(() => pages.signIn.show(byId("main"), options), () => app.shown === null);
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

function placeNow() {
  return PLACES.find(({ pattern }) => pattern.test(location.pathname)) ?? PLACES[0];
}

function show({ isNew = false } = {}) {
  const place = placeNow();
  if (!isNew && app.shown?.path === placeOf()) return;
  const [, id] = place.pattern.exec(location.pathname) ?? [];
  app.shown?.leave?.();
  const main = byId("main");
  main.replaceChildren();
  scrollTo(0, 0);
  const shown = { path: placeOf(), nav: place.nav };
  app.shown = shown;
  const draw = () => {
    main.replaceChildren(); // what was said meanwhile
    Object.assign(shown, pages[place.page].show(main, app, id === undefined ? undefined : decodeURIComponent(id)));
    drawNav();
  };
  if (pages[place.page]) draw();
  else {
    drawNav();
    whenThere(draw, () => app.shown === shown);
  }
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
  showSignIn({ next: location.pathname + location.search + location.hash, text: halfSignedIn(problem) ?? "You were signed out." });
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
