// Notifications of the signed-in person: this device, all devices, quiet hours, services.

import { call, get, path } from "../api.js";
import { at } from "../clock.js";
import { inWords } from "../dangers.js";
import { announce, button, h, link } from "../dom.js";
import { disablePush, enablePush, subscription, usualName, whyNoPush } from "../push.js";

const DAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const RESULTS = {
  accepted: "The push service accepted the test message; it appears within seconds.",
  gone: "The push service does not know this device any more, so it was removed. Enable it there again.",
  failed: "The push service did not accept the test message; the gateway's log says why.",
};

export function show(main, app) {
  if (app.me.role === "auditor") {
    main.append(h("h1", {}, "Notifications"), h("p", { class: "hint lead" }, "Only people who answer requests are notified of them."));
    return { title: "Notifications" };
  }
  const status = h("p", { class: "status bad", role: "alert" });
  const done = h("p", { class: "status", role: "status" });
  const here = h("section");
  const devices = h("section");
  const choices = h("section");
  main.append(h("h1", {}, "Notifications"),
    h("p", { class: "hint lead" }, "You are notified of requests while nobody has the inbox open. What is on a page that you look at sends no message."),
    status, done, here, devices, choices);

  const attempt = async (work) => {
    status.textContent = done.textContent = "";
    try {
      await work();
    } catch (error) {
      status.textContent = `Failed: ${error.message}.`;
    }
  };
  const say = (text) => { done.textContent = text; announce(text); };
  /** Draw the devices anew; the choices below may hold what is not saved yet. */
  const load = async () => {
    const found = await get("/v1/notifications");
    const own = found.devices.find((one) => one.is_this);
    const isOn = Boolean(own && (await subscription().catch(() => null)));
    drawHere(here, found, isOn ? own : null, app.me.name, { attempt, load, say });
    drawDevices(devices, found.devices, { attempt, load, say });
    return found;
  };
  attempt(async () => drawChoices(choices, await load(), { attempt, say }));
  return { title: "Notifications" };
}

/** Draw a section, and name it after its heading: before that there is nothing to name it after. */
function fill(place, heading, ...children) {
  place.setAttribute("aria-labelledby", heading.id);
  place.replaceChildren(heading, ...children);
}

function drawHere(place, { push, why_not: whyNot, public_key: publicKey }, own, person, { attempt, load, say }) {
  const head = h("h2", { id: "here", class: "spaced" }, "This device");
  const reason = push ? whyNoPush() : sentence(whyNot);
  if (own) {
    return fill(place, head,
      h("p", { class: "lead" }, "Push messages are on, as ", h("strong", {}, own.name), own.ends_at ? `. They end with this sign-in on ${at(own.ends_at)}; sign in again before that.` : "."),
      h("p", {}, button("Turn off", () => attempt(async () => { await disablePush(own.device_id); await load(); say("Push messages are off on this device"); }))));
  }
  if (reason) return fill(place, head, h("p", { class: "hint lead" }, inWords(reason)));
  const name = h("input", { name: "device", required: true, maxlength: "60", autocomplete: "off", value: usualName() });
  const form = h("form", { class: "find" }, h("label", {}, h("span", {}, "Name of this device"), name), h("button", { class: "button once" }, "Turn on push messages"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => { await enablePush(person, name.value.trim(), publicKey); await load(); say("Push messages are on"); });
  });
  fill(place, head, form,
    h("p", { class: "hint lead" }, "A message shows the project, the dangers and the time left, never the command: a locked screen shows it too."));
}

function drawDevices(place, devices, { attempt, load, say }) {
  const rows = devices.map((one) => h("li", { class: "grant" },
    h("div", { class: "grant-what" }, h("strong", {}, one.name), one.is_this ? h("small", {}, "this device") : null),
    h("div", { class: "hint grant-who" }, `enabled ${at(one.at)} · ${one.used_at ? `last used ${at(one.used_at)}` : "never used"}${one.ends_at ? ` · ends ${at(one.ends_at)}` : ""}`),
    h("div", { class: "grant-end" },
      button("Send a test", () => attempt(async () => { const { sent } = await call("POST", path("/v1/notifications/devices/{}/test", one.device_id)); await load(); say(RESULTS[sent]); }), { kind: "small", "aria-label": `Send a test to ${one.name}` }),
      button("Remove", () => attempt(async () => {
        if (one.is_this) await disablePush(one.device_id);
        else await call("DELETE", path("/v1/notifications/devices/{}", one.device_id));
        await load();
        say(`Removed ${one.name}`);
      }), { kind: "small", "aria-label": `Remove ${one.name}` }))));
  fill(place, h("h2", { id: "devices", class: "spaced" }, "Your devices"),
    rows.length ? h("ul", { class: "grants" }, ...rows) : h("p", { class: "hint lead" }, "No device of yours gets push messages."));
}

function drawChoices(place, { quiet, services, muted }, { attempt, say }) {
  const zone = quiet?.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone;
  const tick = (text, isOn, more = {}) => { const box = h("input", { type: "checkbox", checked: isOn, ...more }); return [box, h("label", { class: "tick" }, box, h("span", {}, text))]; };
  const [on, onLabel] = tick("Quiet hours", Boolean(quiet));
  const begin = h("input", { type: "time", required: true, value: quiet?.begin ?? "22:00" });
  const until = h("input", { type: "time", required: true, value: quiet?.until ?? "07:00" });
  const days = DAYS.map((name, day) => tick(name, quiet ? quiet.days.includes(day) : true));
  const [grave, graveLabel] = tick("Grave requests still come: those that run downloaded code, delete, take other rights or read secrets", Boolean(quiet?.grave));
  const boxes = services.map((name) => [name, ...tick(name, !muted.includes(name))]);
  const hours = h("fieldset", { class: "quiet-hours", disabled: !quiet },
    h("legend", { class: "spoken" }, "Quiet hours"),
    h("div", { class: "find" }, h("label", {}, h("span", {}, "From"), begin), h("label", {}, h("span", {}, "To"), until)),
    h("div", { class: "ticks", role: "group", "aria-label": "Days on which they begin" }, ...days.map(([, label]) => label)),
    graveLabel,
    h("p", { class: "hint" }, `Times are those of ${zone}.`));
  on.addEventListener("change", () => { hours.disabled = !on.checked; });
  const form = h("form", { class: "notifying" }, onLabel, hours,
    h("p", { class: "hint lead" }, "A request that comes in quiet hours is sent when they end, if it still waits. What expired in them is reported then. Other people are told at once."),
    h("h2", { class: "spaced" }, "Services"),
    boxes.length ? h("div", { class: "ticks" }, ...boxes.map(([, , label]) => label)) : h("p", { class: "hint" }, "The notifier's configuration names no service for you."),
    boxes.length ? h("p", { class: "hint lead" }, "An administrator configures them. One that is off sends you no requests.") : null,
    h("p", { class: "lead" }, h("button", { class: "button once" }, "Save")));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    attempt(async () => {
      const body = { muted: boxes.filter(([, box]) => !box.checked).map(([name]) => name) };
      if (on.checked) body.quiet = { begin: begin.value, until: until.value, zone, days: days.flatMap(([box], day) => (box.checked ? [day] : [])), grave: grave.checked };
      await call("PUT", "/v1/notifications", { body });
      const { devices } = await get("/v1/notifications");
      const reached = devices.length || boxes.some(([, box]) => box.checked);
      say(reached ? "Saved" : "Saved. No service and no device notifies you now: requests wait until you open the inbox.");
    });
  });
  fill(place, h("h2", { id: "quiet", class: "spaced" }, "When"), form, h("p", { class: "hint" }, link("/account", {}, "Back to your account")));
}

/** Return a text of the gateway as a sentence. */
function sentence(text) {
  return text ? `${text[0].toUpperCase()}${text.slice(1)}${text.endsWith(".") ? "" : "."}` : null;
}
