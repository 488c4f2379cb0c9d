// The tree of a plan's Markdown as elements: allowed nodes only, and each text as text.

import { h } from "./dom.js";
import { reveal } from "./reveal.js";

const SAME = new Set(["p", "ul", "blockquote", "em", "strong", "code", "hr"]);
const HEADING = /^h[1-6]$/;

/** Return the nodes of a tree; an unknown tag is drawn as its text. */
export function markdown(nodes) {
  return nodes.flatMap((node) => (typeof node === "string" ? reveal(node) : [element(node)]));
}

function element(node) {
  const inner = markdown(node.children);
  if (SAME.has(node.tag)) return h(node.tag, {}, ...inner);
  // The page has headings of its own; those of a plan are below them.
  if (HEADING.test(node.tag)) return h("p", { class: `plan-heading ${node.tag}`, role: "heading", "aria-level": String(Math.min(6, Number(node.tag[1]) + 2)) }, ...inner);
  if (node.tag === "ol") return h("ul", { class: "numbered" }, ...inner);
  if (node.tag === "li") return h("li", {}, node.number ? `${node.number}. ` : null, ...inner);
  if (node.tag === "pre") return h("div", {}, node.info ? h("p", { class: "what-label" }, ...reveal(node.info)) : null, h("pre", { class: "code" }, ...inner));
  if (node.tag === "link") return h("span", { class: "plan-link" }, ...inner, ...(node.href ? [" (", h("code", {}, ...reveal(node.href)), ")"] : []));
  return h("span", {}, ...inner);
}
