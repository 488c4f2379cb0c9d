// Keyboard shortcuts and their list.

import { byId, h } from "./dom.js";

const HELP = [
  ["j / k, ↓ / ↑", "next, previous request"],
  ["o", "allow once"],
  ["s s", "remember: allow in this session"],
  ["a a", "remember: always allow"],
  ["r", "reject, with optional instructions"],
  ["e", "edit what will run"],
  ["w", "more of it: why you are asked, where it comes from"],
  ["x", "select, to answer several at once"],
  ["+", "five minutes more, while you think"],
  ["u", "undo, while the answer is held"],
  ["← / →", "in a session: previous, next event"],
  ["Ctrl + Enter", "send what you wrote"],
  ["Esc", "back"],
  ["/", "filter"],
  ["g i, g s, g g", "inbox, sessions, grants"],
  ["?", "this list"],
];
const ANSWERS = { o: "once", s: "session", a: "always", r: "reject", e: "edit" };
const PLACES = { i: "/", s: "/sessions", g: "/grants" };
const STEPS = { ArrowLeft: -1, ArrowRight: 1 };
const WALKS = { j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 };
const CHORD_MS = 1200;

let chordAt = -Infinity;

/** `deck()` returns the shown list of cards, or null; `step()` a function that moves in time; `go` follows a link. */
export function listenToKeys({ deck, step, go }) {
  addEventListener("keydown", (event) => {
    if (event.altKey || event.metaKey) return;
    const isWriting = event.target.matches?.("input:not([type=radio]):not([type=range]), textarea, select");
    if (event.ctrlKey) return event.key === "Enter" && isWriting ? send(event, deck()) : undefined;
    if (event.key === "Escape") return goBack(event);
    if (isWriting || (event.repeat && !WALKS[event.key]) || byId("help")?.open) return;
    const isChord = performance.now() - chordAt < CHORD_MS;
    chordAt = -Infinity;
    if (isChord && PLACES[event.key]) go(PLACES[event.key]);
    else if (event.key === "g") chordAt = performance.now();
    else if (event.key === "?") showHelp();
    else if (event.key === "/") document.querySelector("input[type=search]")?.focus();
    else if (STEPS[event.key] && step() && !event.target.matches?.("input")) step()(STEPS[event.key]);
    else if (WALKS[event.key] && deck()?.walks(event)) deck().step(WALKS[event.key]);
    else if (event.key === "+" && deck()) deck().extend();
    else if (event.key === "u" && deck()) deck().undo();
    else if (event.key === "x" && deck()) deck().select();
    else if (event.key === "w" && deck()) deck().explain();
    else if (ANSWERS[event.key] && deck()) deck().press(ANSWERS[event.key], event);
    else return;
    event.preventDefault();
  });
}

function send(event, deck) {
  if (!deck?.focused()) return;
  event.preventDefault();
  deck.press("send", event);
}

function goBack(event) {
  const found = event.target.closest?.("[data-key]")?.querySelector("[data-answer=back]");
  if (!found) return;
  event.preventDefault();
  found.click();
}

export function showHelp() {
  const dialog = byId("help") ?? document.body.appendChild(h("dialog", { id: "help", "aria-labelledby": "help-title" },
    h("h2", { id: "help-title" }, "Keys"),
    h("dl", {}, ...HELP.map(([key, what]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)))),
    h("form", { method: "dialog" }, h("button", { class: "button", autofocus: true }, "Close"))));
  dialog.showModal();
}
