// Long texts of a request, folded. A fold blocks an allow until it was opened and scrolled through.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";

const PREVIEW_LINES = 14;
const PREVIEW_CHARS = 1600;
const TAIL_CHARS = 80;

/** Return a text folded to its beginning, its end and its size; `draw(text)` makes the element of a text. */
export function folded(text, draw) {
  const lines = text.split("\n");
  const size = lines.length > 1 ? `${lines.length} lines` : `${text.length} characters`;
  const beginning = lines.slice(0, PREVIEW_LINES).join("\n").slice(0, PREVIEW_CHARS);
  return foldedParts(size, () => draw(text), () => draw(wholeLetters(beginning)), text);
}

/** Fold an element of several texts; `ending` is the text whose end is shown. */
export function foldedParts(size, whole, beginning, ending) {
  const wrapper = h("div", { class: "folded" });
  const more = h("button", { type: "button", class: "unfold" });
  const tail = h("p", { class: "tail" }, "and it ends with ", h("code", {}, "…", ...reveal(wholeLetters(ending.trimEnd().slice(-TAIL_CHARS)))));
  const show = (isOpen) => {
    wrapper.classList.toggle("open", isOpen);
    more.setAttribute("aria-expanded", String(isOpen));
    more.textContent = isOpen ? "Show less" : `Show all of it: ${size}`;
    wrapper.replaceChildren(...(isOpen ? [whole(), more] : [beginning(), tail, more]));
  };
  more.addEventListener("click", () => {
    show(!wrapper.classList.contains("open"));
    more.focus({ preventScroll: true });
  });
  show(false);
  return wrapper;
}

/** Return a cut text without half a surrogate pair at its ends. */
function wholeLetters(text) {
  return text.replace(/^[\u{DC00}-\u{DFFF}]|[\u{D800}-\u{DBFF}]$/gu, "");
}
