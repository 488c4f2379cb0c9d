// Push messages of this browser: its service worker and its subscription. The gateway keeps the subscription.

import { call, path } from "./api.js";
import { ifAllowed } from "./device.js";
import { proofHeaders } from "./proof.js";
import { forgetDevice, forgetForWorker, keepDevice, keepForWorker, keptDevice } from "./worker-storage.js";

const WORKER = "/sw.js";
const OWNER = "permission-ledger.push";

// The only policy of this page: it makes this one address, whatever it is given.
const policy = window.trustedTypes?.createPolicy("service-worker", { createScriptURL: () => WORKER });

/** Return why this browser cannot receive push messages, or null. */
export function whyNoPush() {
  if (!window.isSecureContext) return "Browsers support push messages only over https, and at localhost.";
  if (!("serviceWorker" in navigator) || !("PushManager" in window)) {
    return isApple() ? "On an iPhone or iPad, first add this page to the home screen (Share, then Add to Home Screen), and open it there. It takes iOS 16.4 or later." : "This browser does not support push messages.";
  }
  if (Notification.permission === "denied") return "This browser blocks notifications of this address; you can change that in its settings.";
  return null;
}

/** Return the present subscription of this browser, or null. */
export async function subscription() {
  if (whyNoPush()) return null;
  const registered = await navigator.serviceWorker.getRegistration("/");
  return (await registered?.pushManager.getSubscription()) ?? null;
}

/** Subscribe this browser under a name, after a gesture. Raises Problem, NoConnection, DOMException. */
export async function enablePush(person, name, publicKey) {
  if ((await Notification.requestPermission()) !== "granted") throw new Error("notifications were not permitted");
  const registered = await navigator.serviceWorker.register(policy ? policy.createScriptURL("") : WORKER, { scope: "/", updateViaCache: "none" });
  await navigator.serviceWorker.ready;
  const key = bytes(publicKey);
  const present = await registered.pushManager.getSubscription();
  // One of another deployment at this address, or of an older key, cannot be used.
  if (present && !isFor(present, key)) await present.unsubscribe();
  const made = await registered.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
  ifAllowed(() => localStorage.setItem(OWNER, JSON.stringify({ person, name })));
  return keep(made, name, publicKey);
}

/** End push messages of this browser; its device, if the gateway knows it, is removed there. */
export async function disablePush(deviceId) {
  if (deviceId) await call("DELETE", path("/v1/notifications/devices/{}", deviceId));
  await Promise.all([forgetForWorker(), forgetDevice()]);
  await (await subscription())?.unsubscribe();
}

/** Renew this person's subscription after a new sign-in, with the new proof for its worker; end that of anybody else. */
export async function renewPush(person) {
  const present = await subscription();
  if (!present) return;
  const owner = JSON.parse(ifAllowed(() => localStorage.getItem(OWNER)) ?? "null");
  if (owner?.person === person) await keep(present, owner.name);
  else await Promise.all([forgetForWorker(), forgetDevice(), present.unsubscribe()]);
}

/** Return a name for this browser that a person recognises. */
export function usualName() {
  const agent = navigator.userAgent;
  const browser = [["Edg/", "Edge"], ["Firefox/", "Firefox"], ["Chrome/", "Chrome"], ["Safari/", "Safari"]].find(([mark]) => agent.includes(mark))?.[1] ?? "Browser";
  const system = [["iPhone", "iPhone"], ["iPad", "iPad"], ["Android", "Android"], ["Mac OS", "Mac"], ["Windows", "Windows"], ["Linux", "Linux"]].find(([mark]) => agent.includes(mark))?.[1];
  return system ? `${browser} on ${system}` : browser;
}

/** Tell the gateway this browser's subscription, in place of the one it had before. */
async function keep(made, name, key) {
  await keepForWorker(proofHeaders()["Permission-Ledger-Proof"]);
  const before = await keptDevice();
  const { endpoint, keys } = made.toJSON();
  const replaces = before && before.endpoint !== endpoint ? { replaces: before.endpoint } : {};
  const kept = await call("POST", "/v1/notifications/devices", { body: { name, endpoint, keys: { p256dh: keys.p256dh, auth: keys.auth }, ...replaces } });
  await keepDevice({ name: kept.name, endpoint, key: key ?? before?.key });
  return kept;
}

function isApple() {
  return /iPhone|iPad/.test(navigator.userAgent) || (navigator.userAgent.includes("Macintosh") && navigator.maxTouchPoints > 1);
}

function isFor(present, key) {
  const own = present.options?.applicationServerKey;
  return !own || (own.byteLength === key.length && new Uint8Array(own).every((one, index) => one === key[index]));
}

function bytes(base64url) {
  return Uint8Array.from(atob(base64url.replaceAll("-", "+").replaceAll("_", "/")), (one) => one.charCodeAt(0));
}
