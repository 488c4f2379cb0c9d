// The red band at the top of every page while something is frozen: nothing can be allowed then.

import { NoConnection, Problem, get } from "./api.js";
import { at } from "./clock.js";
import { byId, h } from "./dom.js";
import { reveal } from "./reveal.js";

const EVERY_MS = 5000;

/** Show the freezes in force, and keep them current. Returns a function that looks again at once. */
export function watchFreezes() {
  const band = byId("frozen");
  let shown = "[]";
  const look = async () => {
    if (document.hidden) return;
    try {
      const { freezes } = await get("/v1/freeze");
      const now = JSON.stringify(freezes);
      if (now === shown) return;
      shown = now;
      band.hidden = freezes.length === 0;
      band.replaceChildren(...freezes.map(line), h("p", {}, "Nothing can be allowed meanwhile; rejecting works."));
    } catch (error) {
      // Without a connection the band stays as it was.
      if (!(error instanceof NoConnection) && !(error instanceof Problem)) throw error;
    }
  };
  setInterval(look, EVERY_MS);
  document.addEventListener("visibilitychange", look);
  look();
  return look;
}

function line({ project, by, at: since, reason }) {
  const place = project === null ? ["Everything is frozen"] : ["Project ", h("b", {}, ...reveal(project)), " is frozen"];
  return h("p", {}, h("strong", {}, ...place), " by ", ...reveal(by), " since ", h("time", { datetime: since }, at(since)),
    ...(reason ? [": ", ...reveal(reason)] : []));
}
