// Server-sent events (WHATWG HTML, 9.2.6) with the proof of the sign-in: the browser's own EventSource sends no headers.

import { openStream } from "./api.js";

/**
 * Dispatches each event of the stream by its name, with its `data`, and `error` when the stream cannot be opened or has
 * ended. It does not reconnect.
 */
class EventStream extends EventTarget {
  #ending = new AbortController();

  constructor(path) {
    super();
    this.isRefused = false; // the gateway's response was no stream
    this.#read(path);
  }

  close() {
    this.#ending.abort();
  }

  async #read(path) {
    try {
      const response = await openStream(path, this.#ending.signal);
      this.isRefused = !response.ok;
      if (response.ok) await this.#take(response.body.pipeThrough(new TextDecoderStream()).getReader());
    } catch (error) {
      if (!(error instanceof TypeError) && error.name !== "AbortError") throw error; // the connection was lost
    }
    if (!this.#ending.signal.aborted) this.dispatchEvent(new Event("error"));
  }

  async #take(reader) {
    let rest = "";
    for (let { done, value } = await reader.read(); !done; { done, value } = await reader.read()) {
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) if (!this.#ending.signal.aborted) this.#tell(block);
    }
  }

  #tell(block) {
    const members = { event: "message", data: [] };
    for (const line of block.split("\n")) {
      const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
      if (name === "event") members.event = value;
      else if (name === "data") members.data.push(value);
    }
    if (members.data.length) this.dispatchEvent(new MessageEvent(members.event, { data: members.data.join("\n") }));
  }
}

/** Open the event stream of a path. */
export function eventStream(path) {
  return new EventStream(path);
}
