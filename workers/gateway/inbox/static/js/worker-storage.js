// What the service worker needs and cannot read elsewhere: a copy of the sign-in's proof, and the device as the gateway
// knows it (name, endpoint, public key). It belongs to the same origin. The proof is there only while
// somebody is signed in and this browser receives push messages.

const DATABASE = "permission-ledger";
const STORE = "worker";
const PROOF = "proof";
const DEVICE = "device";

export const keepForWorker = (proof) => change((store) => store.put(proof, PROOF));
export const keepDevice = (device) => change((store) => store.put(device, DEVICE));

export function forgetForWorker() {
  return change((store) => store.delete(PROOF));
}

export function forgetDevice() {
  return change((store) => store.delete(DEVICE));
}

/** Return the device as the gateway knew it last, or null; the worker may have changed it. */
export async function keptDevice() {
  let found = null;
  await change((store) => { found = store.get(DEVICE); });
  return found?.result ?? null;
}

/** Change the storage. Does nothing in a browser that has none, in which no push message arrives either. */
function change(work) {
  return new Promise((resolve) => {
    if (!("indexedDB" in window)) return resolve();
    const opening = indexedDB.open(DATABASE, 1);
    opening.onupgradeneeded = () => opening.result.createObjectStore(STORE);
    opening.onerror = () => resolve();
    opening.onsuccess = () => {
      const changing = opening.result.transaction(STORE, "readwrite");
      work(changing.objectStore(STORE));
      changing.oncomplete = changing.onerror = changing.onabort = () => { opening.result.close(); resolve(); };
    };
  });
}
