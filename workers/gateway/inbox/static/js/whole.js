// The page arrives in two parts: the list of requests is drawn by the first one, while the rest is on its way.

import { announce, byId } from "./dom.js";

const LOADING = "This page is still loading. Press again in a moment.";
const CUT = "This page has not arrived whole. Reload it.";

/** Wait for the rest of the page, and refuse presses of buttons until it is there. */
export async function wholePage() {
  if (byId("whole")) return;
  addEventListener("click", refuse, { capture: true });
  if (document.readyState === "loading") await new Promise((done) => { document.addEventListener("DOMContentLoaded", done, { once: true }); });
  if (!byId("whole")) {
    tell(CUT);
    await new Promise(() => {});
  }
  removeEventListener("click", refuse, { capture: true });
}

function refuse(event) {
  // A link is a place of its own.
  if (event.target.closest?.("a")) return;
  event.preventDefault();
  event.stopPropagation();
  tell(document.readyState === "loading" ? LOADING : CUT);
}

function tell(text) {
  byId("connection").textContent = text;
  announce(text);
}
