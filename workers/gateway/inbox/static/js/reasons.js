// The fold with the reason for a request in full. It is fetched when it is opened.

import { h } from "./dom.js";
import { explain } from "./explaining.js";

/** Return the fold of a card; `element()` is the card. */
export function reasons(row, page, element) {
  const inner = h("div", { class: "reasons-inner" });
  const fold = h("details", { class: "reasons" }, h("summary", { "aria-keyshortcuts": "w" }, "Why? Grants that would have answered it"), inner);
  let isLoaded = false;
  fold.addEventListener("toggle", async () => {
    if (!fold.open || isLoaded) return;
    isLoaded = true;
    isLoaded = await explain(row, page, element(), inner);
  });
  return fold;
}
