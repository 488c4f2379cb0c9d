// The inbox: a list of all pending requests, the dangerous ones first, and beside it the card of the one that is open. On
// a narrow page list and card take turns, and the browser's Back leads to the list.

import { NoConnection, Problem, get, path } from "../api.js";
import { Deck } from "../deck.js";
import { filterOf } from "../filtering.js";
import { keepOrder, keptOrder } from "../order-setting.js";
import { ORDERS } from "../ordering.js";
import { ago, everySecond } from "../clock.js";
import { button, byId, h, sessionLink } from "../dom.js";
import { inOneLine } from "../what.js";
import { forgetUndelivered, undelivered } from "../undelivered.js";
import { outcomeKind, outcomeText } from "../outcomes.js";
import { reveal } from "../reveal.js";
import { keyOf } from "../store.js";
import { drawUnsent } from "../unsent.js";

const LINES_SHOWN = 14;

export function show(main, app) {
  const filter = h("input", { type: "search", placeholder: "Filter: project:shop", "aria-label": "Filter by words, project:, agent:, session:, permission:, path: or danger:", class: "filter" });
  const order = h("select", { class: "order", "aria-label": "Order" }, ...Object.entries(ORDERS).map(([name, { text }]) => h("option", { value: name, selected: name === keptOrder() }, `By ${text}`)));
  const all = button("", () => deck.selection.chooseAll(deck.selection.readOf(deck.listed)), { kind: "small", hidden: true });
  const heading = h("h1", {}, "Waiting for you");
  const count = h("p", { class: "summary" });
  const rows = h("ul", { class: "rows", "aria-label": "Pending requests" });
  const card = h("div", { class: "deck", role: "group", "aria-label": "The open request" });
  const toList = h("button", { type: "button", class: "to-list button quiet", onclick: () => leaveCard() }, "‹ List");
  const position = h("span", { class: "hint" });
  // On a phone the row of the answer is not on the screen.
  const undo = button("Undo", () => deck.undo(null), { kind: "small", "aria-keyshortcuts": "u", hidden: true, data: { undo: "" } });
  const empty = h("div", { class: "empty-state", hidden: true });
  const damaged = h("ul", { class: "damaged", hidden: true, "aria-label": "Sessions that cannot be read" });
  const unsent = h("div", { class: "unsent-texts", hidden: true });
  const lines = h("ol", { class: "lines" });
  const element = h("div", { class: "inbox" },
    h("section", { class: "waiting" }, h("div", { class: "section-head" }, heading, count, all, order, filter), damaged, unsent, empty, rows),
    h("section", { class: "opened", "aria-label": "Request" }, h("div", { class: "card-head" }, toList, position, undo), card),
    h("aside", { class: "just-now", "aria-label": "Settled just now" }, h("h2", {}, "Just now"), lines));
  main.append(element);
  // The list fills the window below the page's head, whose height changes with a selection.
  const sizing = new ResizeObserver(() => element.style.setProperty("--head", `${byId("top").offsetHeight}px`));
  sizing.observe(byId("top"));
  const narrow = matchMedia("(max-width: 960px)");
  let listTop = 0;

  const drawAll = () => {
    const keys = deck.selection?.readOf(deck.listed) ?? [];
    all.hidden = keys.length < 2 || keys.every((key) => deck.selection.chosen.has(key));
    all.textContent = `Select ${keys.length} read`;
  };
  let words = "";
  let isWanted = () => true;
  const search = () => {
    words = filter.value.trim();
    isWanted = filterOf(words);
  };
  filter.value = new URLSearchParams(location.search).get("find") ?? "";
  search();
  const deck = new Deck(card, {
    requests: app.requests,
    me: app.me,
    rows,
    isNarrow: () => narrow.matches,
    wanted: (row) => isWanted(row),
    order: ORDERS[order.value].compare,
    onopen: (place, isAuto) => {
      const isFirst = !element.hasAttribute("data-open");
      if (place && isFirst) listTop = scrollY;
      element.toggleAttribute("data-open", place !== null);
      if (place === null && narrow.matches) setTimeout(() => scrollTo(0, listTop));
      if (place === (location.hash || null) || (isAuto && place)) return;
      // Back leads from a card that was opened in the list of a narrow page to that list, and nowhere else.
      const isStep = narrow.matches && place !== null && isFirst;
      history[isStep ? "pushState" : "replaceState"]({ isStep: isStep || history.state?.isStep }, "", location.pathname + location.search + (place ?? ""));
    },
    onchange: (waiting, shown) => {
      const all = app.requests.rows.size;
      count.textContent = waiting === all ? (all ? String(all) : "") : `${waiting} of ${all}`;
      empty.hidden = shown > 0;
      element.classList.toggle("is-empty", !shown);
      position.textContent = waiting > 1 ? `${waiting} waiting` : "";
      if (!shown) drawEmpty(empty, words, app);
    },
  });
  order.addEventListener("change", () => {
    keepOrder(order.value);
    deck.order = ORDERS[order.value].compare;
    deck.draw();
  });
  filter.addEventListener("input", () => { search(); deck.draw(); });
  const drawLines = () => lines.replaceChildren(...app.requests.lines.slice(0, LINES_SHOWN).map((one) => settledLine(one, app)), ...(app.requests.lines.length ? [] : [h("li", { class: "hint" }, "Recent answers and decisions by rule appear here.")]));
  app.requests.addEventListener("change", drawLines);
  app.live.addEventListener("state", deck.draw.bind(deck));
  const drawLeft = () => {
    if (app.requests.isFilled) drawUnsent(unsent, app.requests, deck);
  };
  app.requests.addEventListener("change", drawLeft);
  app.requests.drafts.addEventListener("change", drawLeft);
  drawLeft();
  const drawDamaged = () => {
    damaged.hidden = !app.live.problems.length;
    damaged.replaceChildren(...app.live.problems.map(damagedRow));
  };
  app.live.addEventListener("problems", drawDamaged);
  drawDamaged();
  const stop = everySecond(() => {
    drawAll();
    for (const time of lines.querySelectorAll("time")) time.textContent = ago(time.dateTime);
  });
  const drawUndo = () => { undo.hidden = !app.requests.holding?.held.size; };
  for (const name of ["local", "unheld"]) app.requests.addEventListener(name, drawUndo);
  drawLines();
  tellUndelivered(app);
  const leaveCard = () => {
    if (history.state?.isStep) history.back();
    else deck.open(null);
  };
  const seeAsked = () => {
    if (location.hash) seeRequest(app, deck);
    else if (narrow.matches) deck.open(null);
  };
  const turn = () => deck.draw();
  narrow.addEventListener("change", turn);
  addEventListener("hashchange", seeAsked);
  seeAsked();
  return {
    deck,
    title: "Permissions",
    leave: () => {
      stop();
      sizing.disconnect();
      removeEventListener("hashchange", seeAsked);
      narrow.removeEventListener("change", turn);
      for (const name of ["local", "unheld"]) app.requests.removeEventListener(name, drawUndo);
      app.requests.removeEventListener("change", drawLines);
      app.requests.removeEventListener("change", drawLeft);
      app.requests.drafts.removeEventListener("change", drawLeft);
      app.live.removeEventListener("problems", drawDamaged);
      deck.destroy();
    },
  };
}

/** Return a row for a stream that cannot be read, shown above all requests. */
function damagedRow(one) {
  return h("li", { title: one.text }, "Damaged: ", one.session ? sessionLink(one.session) : h("code", {}, one.stream),
    ". Its pending requests cannot be shown. ", h("code", {}, "permission-ledger verify --all"));
}

function drawEmpty(empty, words, app) {
  if (words) return empty.replaceChildren(h("p", {}, "No matching requests"));
  if (app.live.state === "connecting") return empty.replaceChildren(h("p", {}, "Loading …"));
  if (app.live.rebuilding) return empty.replaceChildren(
    h("p", { class: "big" }, "Nothing was found, but the list is being rebuilt."),
    h("p", {}, "What waits may be missing. Load the page again in a minute."));
  empty.replaceChildren(
    h("p", { class: "big" }, "Nothing is waiting."),
    h("p", {}, "New requests appear here, on every device that has this page open."),
    ...(app.me.role === "admin" ? [h("p", { class: "hint try" }, "To try it, run on the ledger's machine: ", h("code", {}, "permission-ledger ask demo bash 'git push'"))] : []));
}

/** Return words as they stand within a line; names keep their capitals. */
const withinLine = (words) => words.charAt(0).toLowerCase() + words.slice(1);

function settledLine({ row, result }, app) {
  const decided = result.isByRule ? `${result.outcome === "denied" ? "denied" : "allowed"} by rule` : withinLine(outcomeText(result, app.me.name));
  return h("li", { class: result.isByRule ? "by-rule" : outcomeKind(result.outcome) },
    h("code", {}, ...reveal(inOneLine(row))),
    h("span", { class: "how" }, decided),
    h("span", { class: "place" }, sessionLink(row.session, result.version), " ", h("time", { datetime: result.at ?? new Date().toISOString() }, ago(result.at ?? new Date().toISOString()))));
}

/** Bring the request that the address names (`#SESSION/REQUEST`) into view, once the requests are there; or its outcome. */
function seeRequest(app, deck) {
  const [session, request] = location.hash.slice(1).split("/").map(decodeURIComponent);
  if (!session || !request) return;
  const key = keyOf({ session, request_id: request });
  const see = () => {
    if (app.requests.rows.has(key)) deck.open(deck.itemOf(key), { isFocused: true });
    else if (app.live.state === "connecting" || app.live.state === "offline") return;
    else arrived(app, key);
    app.requests.removeEventListener("change", see);
    app.live.removeEventListener("state", see);
  };
  app.requests.addEventListener("change", see);
  app.live.addEventListener("state", see);
  // After a change of pages, which moves the focus to the new one.
  setTimeout(see);
}

/** Report whether answers that a reload interrupted have arrived; nothing is sent again. */
function tellUndelivered(app) {
  const left = Object.entries(undelivered());
  if (!left.length) return;
  const tell = () => {
    for (const [key, { reply }] of left) {
      if (!app.requests.rows.has(key)) arrived(app, key);
      else if (!app.requests.local.get(key)) {
        app.requests.setLocal(key, { phase: "waiting", note: `Your answer “${reply}” had not arrived when the page was reloaded, and is not sent again. If the request is still pending in a moment, answer it again.` });
      }
    }
    forgetUndelivered();
    app.live.removeEventListener("state", tell);
  };
  if (app.live.state === "connecting" || app.live.state === "offline") app.live.addEventListener("state", tell);
  else tell();
}

/** Show the outcome of a request that is no longer pending. */
async function arrived(app, key) {
  const [session, request] = key.split("\n");
  try {
    const result = await get(path("/v1/sessions/{}/asks/{}", session, request));
    if (!result.outcome) return;
    const row = { ...result.request, session };
    app.requests.setLocal(key, { phase: "gone", row });
    app.requests.settle(row, { ...result, isOwn: true });
  } catch (error) {
    if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
  }
}
