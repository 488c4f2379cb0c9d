// Texts that were written for requests which have ended meanwhile.

import { announce, button, h } from "./dom.js";
import { textOf } from "./drafts.js";
import { reveal } from "./reveal.js";

const UNDER_WAY = ["held", "sending", "unsure"];

/** Draw the texts whose request no longer takes an answer. */
export function drawUnsent(place, requests, deck) {
  const isOpen = (key) => requests.rows.has(key) || UNDER_WAY.includes(requests.local.get(key)?.phase) || deck.members.waiting(key).length > 0;
  const left = requests.isFilled ? requests.drafts.written().filter(([key]) => !isOpen(key)) : [];
  const drawn = JSON.stringify(left);
  if (place.dataset.drawn === drawn) return;
  place.dataset.drawn = drawn;
  place.hidden = !left.length;
  place.replaceChildren(h("h2", {}, "Written, and not sent"), ...left.map(([key, draft]) => {
    const text = textOf(draft);
    return h("div", { class: "unsent" },
      h("p", {}, h("code", {}, ...reveal(draft.what ?? "")), " has ended meanwhile. You wrote:"),
      h("textarea", { readonly: true, rows: "2", "aria-label": "What you wrote", value: text }),
      h("p", {}, button("Copy", () => navigator.clipboard?.writeText(text).then(() => announce("Copied"), () => announce("This browser does not let the page copy: select the text.")), { kind: "small" }), " ",
        button("Discard", () => requests.drafts.drop(key), { kind: "quiet small" })));
  }));
}
