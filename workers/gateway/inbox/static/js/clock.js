// Times for people, by the server's clock: a deadline must not depend on this device's clock.

const TOLERANCE_MS = 1500; // the header `Date` has whole seconds
let offsetMs = 0;

/** Estimate the server's time from a response to a request sent at `sentMs`. */
export function learnServerTime(dateHeader, sentMs) {
  const told = Date.parse(dateHeader ?? "");
  if (Number.isNaN(told)) return;
  const found = told + 500 - (sentMs + Date.now()) / 2;
  if (Math.abs(found - offsetMs) > TOLERANCE_MS) offsetMs = found;
}

export function serverNow() {
  return Date.now() + offsetMs;
}

const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000], ["s", 1000]];

/** `42s`, `3m 20s`, `6d 23h`: the two largest units. */
export function spell(ms) {
  let rest = Math.max(0, Math.floor(ms / 1000) * 1000);
  const said = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    if (count > 0 || (unit === "s" && said.length === 0)) said.push(`${count}${unit}`);
    else if (said.length) break;
    rest -= count * size;
    if (said.length === 2) break;
  }
  return said.join(" ");
}

export function ago(time) {
  const ms = serverNow() - Date.parse(time);
  return ms < 2000 ? "just now" : `${spell(ms).split(" ")[0]} ago`;
}

const CLOCK = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const DAY = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric" });

/** `10:12:31`, with the day when it is not today. */
export function at(time) {
  if (!time) return "never";
  const date = new Date(time);
  const isToday = date.toDateString() === new Date(serverNow()).toDateString();
  return isToday ? CLOCK.format(date) : `${DAY.format(date)} ${CLOCK.format(date)}`;
}

const FULL = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
const ZONE = new Intl.DateTimeFormat(undefined, { timeZoneName: "short", hour: "numeric" });

/** `24 Nov 2026, 10:12:31`, in the time zone of this browser, which `zone` names. */
export function fullTime(time) {
  return time ? `${FULL.format(new Date(time))} ${zone(time)}` : "never";
}

/** Return the time zone in which this browser shows times: `CET`, `GMT+2`. */
export function zone(time = serverNow()) {
  return ZONE.formatToParts(new Date(time)).find(({ type }) => type === "timeZoneName")?.value ?? "local time";
}

const tickers = new Set();

/** Call `tick` about once a second while the page is visible; return a function that ends it. */
export function everySecond(tick) {
  tickers.add(tick);
  return () => tickers.delete(tick);
}

setInterval(() => {
  if (!document.hidden) for (const tick of tickers) tick();
}, 1000);
