// Elements without innerHTML: agents' input can only become text.

import { reveal } from "./reveal.js";

/** Return an element; `on…` members are listeners, `data` goes to its dataset, other members are attributes. */
export function h(tag, members = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(members)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "data") Object.assign(element.dataset, value);
    else if (name === "value") element.value = value;
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export function byId(id) {
  return document.getElementById(id);
}

let announced;

/** Announce a text to screen readers. */
export function announce(text) {
  const announcer = byId("announcer");
  announcer.textContent = "";
  clearTimeout(announced);
  announced = setTimeout(() => { announcer.textContent = text; }, 50);
}

/** Return a button; `kind` is a class such as `once` or `quiet`. */
export function button(text, onclick, { kind = "", ...members } = {}) {
  return h("button", { type: "button", class: `button ${kind}`.trim(), onclick, ...members }, text);
}

/** Return a link within the page; main.js follows it without a reload. */
export function link(href, members, ...children) {
  return h("a", { href, "data-link": true, ...members }, ...children);
}

export function sessionLink(session, version) {
  const place = `/sessions/${encodeURIComponent(session)}${version ? `#${version}` : ""}`;
  return link(place, { class: "session-link" }, ...reveal(session));
}

/** Return a link to the sessions of a project, an agent or a person; `member` is the field of their search. */
export function foundLink(member, name) {
  return link(`/sessions?${new URLSearchParams({ [member]: name })}`, { class: "session-link" }, ...reveal(name));
}
