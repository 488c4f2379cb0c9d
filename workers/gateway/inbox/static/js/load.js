// The script of the other pages, fetched once it is needed, or after the list.

import { NoConnection } from "./api.js";

/** Return the module `later.js`. Raises NoConnection; the next call tries again. */
export async function later() {
  try {
    return await import("./later.js");
  } catch (error) {
    // Browsers raise this if the script cannot be fetched.
    if (error instanceof TypeError) throw new NoConnection("no connection to the gateway");
    throw error;
  }
}
