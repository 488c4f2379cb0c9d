// A copy of the sign-in's proof for the service worker, which cannot read the storage that proof.js uses. It belongs to
// the same origin, and is there only while this browser receives push messages.

const DATABASE = "permission-ledger";
const STORE = "worker";
const PROOF = "proof";

export const keepForWorker = (proof) => change((store) => store.put(proof, PROOF));
export const forgetForWorker = () => change((store) => store.delete(PROOF));

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
