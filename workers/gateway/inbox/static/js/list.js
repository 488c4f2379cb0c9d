// A virtual list of items of one height: only those near the window are in the page, which scrolls.

const MARGIN_PX = 900;

export class WindowedList {
  /** `render(key)` makes an item, `height` is that of each in px; `onshow(from, to)` is called with the drawn ones. */
  constructor(root, { render, height, onshow = () => {} }) {
    Object.assign(this, { root, render, height, onshow });
    this.keys = [];
    this.index = new Map();
    this.shown = new Map();
    this.onscroll = () => this.#soon();
    addEventListener("scroll", this.onscroll, { passive: true });
    addEventListener("resize", this.onscroll, { passive: true });
    root.classList.add("windowed");
  }

  destroy() {
    removeEventListener("scroll", this.onscroll);
    removeEventListener("resize", this.onscroll);
  }

  setKeys(keys) {
    this.keys = keys;
    this.index = new Map(keys.map((key, index) => [key, index]));
    this.root.style.height = `${keys.length * this.height}px`;
    this.#draw();
  }

  /** Render an item again if it is shown. */
  refresh(key) {
    const old = this.shown.get(key);
    if (!old) return;
    const element = this.#make(key);
    old.replaceWith(element);
    this.shown.set(key, element);
  }

  element(key) {
    return this.shown.get(key);
  }

  /** Scroll an item into the middle of the window. */
  reveal(key) {
    const index = this.index.get(key);
    if (index === undefined) return;
    scrollTo({ top: this.#pageTop() + (index + 0.5) * this.height - innerHeight / 2 });
    this.#draw();
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.root.isConnected) this.#draw();
    });
  }

  /** Return the item with the focus or under the pointer, which is never removed. */
  #held() {
    const focused = document.activeElement?.closest?.("[data-key]");
    const item = focused && this.root.contains(focused) ? focused : this.root.querySelector(":scope > [data-key]:hover");
    return item && this.index.has(item.dataset.key) ? item.dataset.key : null;
  }

  #pageTop() {
    return this.root.getBoundingClientRect().top + scrollY;
  }

  #draw() {
    const top = scrollY - this.#pageTop();
    const from = Math.max(0, Math.min(this.keys.length - 1, Math.floor((top - MARGIN_PX) / this.height)));
    const to = Math.max(0, Math.min(this.keys.length, Math.floor((top + innerHeight + MARGIN_PX) / this.height) + 1));
    const wanted = new Set(this.keys.slice(from, to));
    const held = this.#held();
    if (held) wanted.add(held);
    for (const [key, element] of this.shown) {
      if (wanted.has(key)) continue;
      element.remove();
      this.shown.delete(key);
    }
    for (const key of wanted) if (!this.shown.has(key)) this.shown.set(key, this.#make(key));
    this.#place(wanted);
    this.onshow(from, to);
  }

  #make(key) {
    const element = this.render(key);
    element.dataset.key = key;
    element.style.transform = `translateY(${this.index.get(key) * this.height}px)`;
    element.setAttribute("aria-posinset", this.index.get(key) + 1);
    element.setAttribute("aria-setsize", this.keys.length);
    return element;
  }

  /** Keep the elements in the order of the list, for Tab and screen readers. */
  #place(wanted) {
    let before = null;
    for (const key of [...wanted].sort((a, b) => this.index.get(b) - this.index.get(a))) {
      const element = this.shown.get(key);
      element.setAttribute("aria-setsize", this.keys.length);
      if (element.parentNode !== this.root || element.nextSibling !== before) {
        if (element.contains(document.activeElement)) before?.before(element);
        else this.root.insertBefore(element, before);
      }
      before = element;
    }
  }
}
