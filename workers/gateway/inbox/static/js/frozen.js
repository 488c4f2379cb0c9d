// The red bands at the top of every page: something is frozen, or a project's rules are not as they were trusted.

import { NoConnection, Problem, get } from "./api.js";
import { at } from "./clock.js";
import { byId, h } from "./dom.js";
import { reveal } from "./reveal.js";

const EVERY_MS = 5000;

/** Show the freezes in force, and keep them current. Returns a function that looks again at once. */
export function watchFreezes() {
  return watch("frozen", "/v1/freeze", ({ freezes }) => freezes.length === 0 ? [] :
    [...freezes.map(line), h("p", {}, "Nothing can be allowed meanwhile; rejecting works.")]);
}

/** Show the projects whose rules are not as they were trusted, and keep them current. */
export function watchChangedRules() {
  return watch("changed-rules", "/v1/policy/projects", ({ projects }) => projects.map(changed));
}

/** Draw a band from an answer, again when the answer is another one. Returns a function that looks again at once. */
function watch(id, path, draw) {
  const band = byId(id);
  let shown = "";
  const look = async () => {
    if (document.hidden) return;
    try {
      const found = await get(path);
      const now = JSON.stringify(found);
      if (now === shown) return;
      shown = now;
      const lines = draw(found);
      band.hidden = lines.length === 0;
      band.replaceChildren(...lines);
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

function changed({ changed: path, command }) {
  return h("p", {}, h("strong", {}, "Rules changed"), ": ", h("b", {}, ...reveal(path)),
    " is not as it was trusted. Its denies count, and every other call is asked, until somebody reads it and runs ",
    h("b", {}, ...reveal(command)), " in a terminal.");
}

function line({ project, by, at: since, reason }) {
  const place = project === null ? ["Everything is frozen"] : ["Project ", h("b", {}, ...reveal(project)), " is frozen"];
  return h("p", {}, h("strong", {}, ...place), " by ", ...reveal(by), " since ", h("time", { datetime: since }, at(since)),
    ...(reason ? [": ", ...reveal(reason)] : []));
}
