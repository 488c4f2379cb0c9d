// The next pending request: the place that an answer page leads to.

import { h } from "../dom.js";
import { keptOrder } from "../order-setting.js";
import { ORDERS } from "../ordering.js";
import { requestPlace } from "../why.js";

export function show(main, app) {
  const text = h("p", { class: "empty", role: "status" }, "Loading …");
  main.append(text);
  const look = () => {
    if (!app.requests.isFilled) return;
    const row = nextOf(app.requests);
    if (row) return app.go(requestPlace(row), { isInstead: true });
    text.textContent = "Nothing is waiting.";
  };
  app.requests.addEventListener("change", look);
  queueMicrotask(look);
  return { title: "Next request", leave: () => app.requests.removeEventListener("change", look) };
}

/** Return the first pending request in the order of the inbox, other than `key`; null if there is none. */
export function nextOf(requests, key = null) {
  const rows = [...requests.rows].filter(([one]) => one !== key).map(([, row]) => row);
  return rows.sort(ORDERS[keptOrder()].compare)[0] ?? null;
}
