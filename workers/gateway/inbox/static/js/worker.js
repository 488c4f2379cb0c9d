// The service worker: it shows push messages, opens their request, and rejects; and it renews this browser's
// subscription when its push service gives it another. It loads and keeps nothing else.
//
// Every push message must show a notification: Safari ends the subscription of one that does not.

const ICON = "/inbox/icon-192.png";
const BADGE = "/inbox/badge-96.png";
const DATABASE = "permission-ledger";
const STORE = "worker";
const PROOF = "proof";
const DEVICE = "device";
const DEVICES = "/v1/notifications/devices";
const TIMEOUT_MS = 15_000;
const UNITS = [["d", 86_400_000], ["h", 3_600_000], ["m", 60_000]];
const TITLE = "A request waits for your answer";

/** Return the page of a request, also of one that is answered. */
const placeOf = ({ session, request }) => `/requests/${encodeURIComponent(request)}?session=${encodeURIComponent(session)}`;
const tagOf = ({ session, request }) => `${session}\n${request}`;
const isText = (value) => typeof value === "string" && value !== "";
const isReference = (one) => isText(one?.session) && isText(one.request) && isText(one.digest);

addEventListener("install", () => skipWaiting());
addEventListener("activate", (event) => event.waitUntil(clients.claim()));
addEventListener("push", (event) => event.waitUntil(receive(read(event.data))));
addEventListener("pushsubscriptionchange", (event) => event.waitUntil(renew(event.newSubscription)));
addEventListener("notificationclick", (event) => {
  event.notification.close();
  event.waitUntil(act(event.action, event.notification.data ?? {}));
});

function read(data) {
  try {
    return data.json() ?? {};
  } catch {
    return {};
  }
}

function receive(message) {
  if (message.kind === "requests" && Array.isArray(message.requests)) return showRequests(message);
  if (message.kind === "settled" && isText(message.session) && isText(message.request)) return withdraw(message);
  if (message.kind === "test") return show("Push messages arrive on this device", { body: isText(message.name) ? message.name : "", tag: "test", data: { place: "/notifications" } });
  return show(TITLE, { body: "Open the inbox.", tag: "unknown", data: { place: "/" } });
}

function show(title, options) {
  return registration.showNotification(title, { icon: ICON, badge: BADGE, ...options });
}

// --- requests ----------------------------------------------------------------------------------------------------------

function showRequests({ requests, count, again }, isSilent = false) {
  const known = requests.filter(isReference);
  if (!known.length) return receive({});
  if (Number(count) > 1 || known.length > 1) return showSeveral(known, Math.max(Number(count) || 0, known.length), isSilent);
  const [one] = known;
  return show(again ? "A request still waits for your answer" : TITLE, {
    body: bodyOf(one),
    tag: tagOf(one),
    silent: isSilent,
    data: { requests: [one], count: 1, place: placeOf(one) },
    // Where a platform shows actions: rejecting needs no look at the call, allowing does.
    actions: Notification.maxActions > 0 ? [{ action: "reject", title: "Reject" }] : [],
  });
}

function showSeveral(requests, count, isSilent) {
  const projects = [...new Set(requests.map((one) => one.project).filter(isText))];
  const dangers = [...new Set(requests.flatMap((one) => one.danger ?? []).filter(isText))];
  const lines = [projects.length ? `Project ${projects.join(", ")}` : null, dangers.length ? `Danger: ${dangers.join(", ")}` : null];
  return show(`${count} requests wait for your answer`, {
    body: lines.filter(Boolean).join("\n"),
    tag: `several ${tagOf(requests[0])}`,
    silent: isSilent,
    data: { requests, count, place: "/" },
  });
}

function bodyOf({ project, effect, danger, deadline_ms: deadline }) {
  const dangers = (Array.isArray(danger) ? danger : []).filter(isText);
  const said = isText(effect) ? effect.charAt(0).toUpperCase() + effect.slice(1) : null;
  return [said, isText(project) ? `Project ${project}` : null, dangers.length ? `Danger: ${dangers.join(", ")}` : null, leftOf(deadline)].filter(Boolean).join("\n");
}

/** Return the time left and the end, since a notification may be read long after it came. */
function leftOf(deadline) {
  if (!Number.isFinite(deadline)) return "No deadline";
  const ms = Math.max(deadline - Date.now(), 0);
  const [unit, size] = UNITS.find(([, one]) => ms >= one) ?? ["s", 1000];
  const until = new Date(deadline).toLocaleString([], ms < 64_800_000 ? { timeStyle: "short" } : { weekday: "short", day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
  return `${Math.floor(ms / size)}${unit} left, until ${until}`;
}

// --- the end of a request ------------------------------------------------------------------------------------------------

/** Take a request out of the notifications that show it, and say quietly how it ended. */
async function withdraw(message) {
  const tag = tagOf(message);
  for (const one of await registration.getNotifications()) {
    const requests = one.data?.requests;
    if (!Array.isArray(requests) || !requests.some((each) => tagOf(each) === tag)) continue;
    one.close();
    const left = requests.filter((each) => tagOf(each) !== tag);
    const count = one.data.count - 1;
    if (left.length) await showRequests({ requests: left, count }, true);
    else if (count > 0) await show(`${count} requests wait for your answer`, { tag: one.tag, silent: true, data: { requests: [], count, place: "/" } });
  }
  return show(isText(message.said) ? message.said : "No answer needed", { tag, silent: true, data: { place: placeOf(message) } });
}

// --- what a person does --------------------------------------------------------------------------------------------------

async function act(action, { requests, place }) {
  const one = requests?.length === 1 ? requests[0] : null;
  if (action !== "reject" || !one) return open(place ?? "/");
  try {
    await reject(one);
  } catch {
    // Signed out, answered meanwhile, changed, or no connection: the page says which.
    return open(placeOf(one));
  }
  return show("Rejected", { tag: tagOf(one), silent: true, data: { place: placeOf(one) } });
}

/** Reject a request as it was sent: an answer with another digest counts for nothing. */
async function reject({ session, request, digest }) {
  const proof = await kept(PROOF);
  if (!proof) throw new Error("this browser is not signed in");
  await post(`/v1/sessions/${encodeURIComponent(session)}/asks/${encodeURIComponent(request)}/reply`, proof, { reply: "reject", digest });
}

/** Post as the person who is signed in, and return what the gateway says. */
async function post(place, proof, body) {
  const response = await fetch(place, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Permission-Ledger-Proof": proof },
    body: JSON.stringify(body),
    cache: "no-store",
    credentials: "same-origin",
    redirect: "error",
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  return response.json();
}

async function open(place) {
  const windows = await clients.matchAll({ type: "window", includeUncontrolled: true });
  const [page] = windows.filter((one) => new URL(one.url).origin === location.origin);
  if (!page) return clients.openWindow(place);
  // Without a reload: the page may hold an unsent text.
  page.postMessage({ kind: "open", place });
  return page.focus();
}

// --- another subscription ------------------------------------------------------------------------------------------------

/** Subscribe again, and tell the gateway the new address in place of the one it knows; its device keeps its name. */
async function renew(given) {
  const [proof, device] = [await kept(PROOF), await kept(DEVICE)];
  // Turned off here, or signed out: there is nothing to renew.
  if (!proof || !device) return;
  try {
    const made = given ?? await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: bytes(device.key) });
    const { endpoint, keys } = made.toJSON();
    const body = { name: device.name, endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth }, replaces: device.endpoint };
    await post(DEVICES, proof, body);
    await keep(DEVICE, { ...device, endpoint });
  } catch {
    await show("Push messages have stopped on this device", { body: "Open this to turn them on again.", tag: "stopped", data: { place: "/notifications" } });
  }
}

function bytes(base64url) {
  return Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
}

/** Return what the page has left for this worker, in the storage of its origin (`worker-storage.js`). */
const kept = (name) => stored("readonly", (store) => store.get(name));
const keep = (name, value) => stored("readwrite", (store) => store.put(value, name));

function stored(mode, use) {
  return new Promise((resolve, fail) => {
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => fail(opening.error);
    opening.onsuccess = () => {
      const found = use(opening.result.transaction(STORE, mode).objectStore(STORE));
      found.onerror = () => fail(found.error);
      found.onsuccess = () => { opening.result.close(); resolve(found.result); };
    };
  });
}
