// A virtual list: only items near the window are in the page. Heights are measured as items appear; visible items keep
// their position when items above them grow, appear or disappear.

const MARGIN_PX = 900;

export class WindowedList {
  /**
   * `render(key)` makes an item, `estimate` is the height in px of one not measured yet, `fixed` says that all have it;
   * `gap` is the px between them.
   * The page scrolls, not the list.
   */
  constructor(root, { render, estimate, gap = 0, fixed = false, onshow = () => {} }) {
    Object.assign(this, { root, render, estimate, gap, fixed, onshow });
    this.keys = [];
    this.index = new Map();
    this.heights = new Map();
    this.tops = new Float64Array(1);
    this.shown = new Map();
    this.from = 0;
    this.to = 0;
    this.observer = fixed ? null : new ResizeObserver((entries) => this.#resized(entries));
    this.onscroll = () => this.#soon();
    addEventListener("scroll", this.onscroll, { passive: true });
    addEventListener("resize", this.onscroll, { passive: true });
    root.classList.add("windowed");
  }

  destroy() {
    removeEventListener("scroll", this.onscroll);
    removeEventListener("resize", this.onscroll);
    this.observer?.disconnect();
  }

  setKeys(keys) {
    const anchor = this.#anchor();
    this.keys = keys;
    this.index = new Map(keys.map((key, index) => [key, index]));
    for (const key of this.heights.keys()) if (!this.index.has(key)) this.heights.delete(key);
    this.#layOut(anchor);
  }

  /** Render an item again if it is shown. */
  refresh(key) {
    const old = this.shown.get(key);
    if (!old) return;
    const element = this.#make(key);
    element.style.transform = old.style.transform;
    element.top = old.top;
    this.observer?.unobserve(old);
    old.replaceWith(element);
    this.shown.set(key, element);
    // Measuring forces a layout, which is slow for many items at once.
    if (!this.fixed) this.#measure([key]);
  }

  element(key) {
    return this.shown.get(key);
  }

  /** Scroll an item into the window and return its element. */
  reveal(key, { block = "nearest", above = 90 } = {}) {
    const index = this.index.get(key);
    if (index === undefined) return null;
    const top = this.#pageTop() + this.tops[index];
    const bottom = this.#pageTop() + this.tops[index + 1];
    if (block === "center") scrollTo({ top: (top + bottom - innerHeight) / 2 });
    else if (top - above < scrollY) scrollTo({ top: top - above });
    else if (bottom > scrollY + innerHeight) scrollTo({ top: Math.min(top - above, bottom - innerHeight + 24) });
    this.#draw();
    return this.shown.get(key);
  }

  /** Return the first visible item. */
  firstVisible() {
    return this.keys[this.#at(scrollY - this.#pageTop() + 60)];
  }

  #soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      if (this.root.isConnected) this.#draw();
    });
  }

  #heightOf(key) {
    return this.fixed ? this.estimate : (this.heights.get(key) ?? this.estimate);
  }

  #layOut(anchor) {
    const tops = new Float64Array(this.keys.length + 1);
    for (let i = 0; i < this.keys.length; i += 1) tops[i + 1] = tops[i] + this.#heightOf(this.keys[i]) + this.gap;
    this.tops = tops;
    this.root.style.height = `${tops[this.keys.length]}px`;
    this.#keepInPlace(anchor);
    this.#draw();
  }

  /** Return the item to keep in place, and its distance from the top of the list. */
  #anchor() {
    if (!this.keys.length) return null;
    const held = this.#held();
    const key = held ?? this.keys[this.#at(scrollY - this.#pageTop())];
    // At the top, new items may push the others down, unless one is in use.
    if (!held && scrollY <= this.#pageTop()) return null;
    return { key, top: this.tops[this.index.get(key)] };
  }

  #keepInPlace(anchor) {
    const index = anchor && this.index.get(anchor.key);
    const by = anchor && index !== undefined ? this.tops[index] - anchor.top : 0;
    if (Math.abs(by) >= 1) scrollBy({ top: by, behavior: "instant" });
  }

  /** Return the item with the focus or under the pointer, which is never removed or moved. */
  #held() {
    const focused = document.activeElement?.closest?.("[data-key]");
    const item = focused && this.root.contains(focused) ? focused : this.root.querySelector(":scope > [data-key]:hover");
    return item && this.root.contains(item) && this.index.has(item.dataset.key) ? item.dataset.key : null;
  }

  #pageTop() {
    return this.root.getBoundingClientRect().top + scrollY;
  }

  #at(y) {
    let low = 0;
    let high = this.keys.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  #draw() {
    const top = scrollY - this.#pageTop();
    const from = this.#at(top - MARGIN_PX);
    const to = Math.min(this.keys.length, this.#at(top + innerHeight + MARGIN_PX) + 1);
    const wanted = new Set(this.keys.slice(from, to));
    const held = this.#held();
    if (held) wanted.add(held);
    for (const [key, element] of this.shown) {
      if (wanted.has(key)) continue;
      this.observer?.unobserve(element);
      element.remove();
      this.shown.delete(key);
    }
    const fresh = [];
    for (const key of wanted) {
      if (this.shown.has(key)) continue;
      this.shown.set(key, this.#make(key));
      fresh.push(key);
    }
    this.#place(wanted);
    if (fresh.length && !this.fixed) this.#measure(fresh);
    Object.assign(this, { from, to });
    this.onshow(from, to);
  }

  #make(key) {
    const element = this.render(key, this.index.get(key));
    element.dataset.key = key;
    this.observer?.observe(element);
    return element;
  }

  /** Keep the elements in the order of the list, for Tab and screen readers. */
  #place(wanted) {
    const ordered = [...wanted].map((key) => this.index.get(key)).sort((a, b) => a - b);
    let before = null;
    for (let i = ordered.length - 1; i >= 0; i -= 1) {
      const element = this.shown.get(this.keys[ordered[i]]);
      if (element.parentNode !== this.root || element.nextSibling !== before) {
        if (element.contains(document.activeElement)) before?.before(element);
        else this.root.insertBefore(element, before);
      }
      this.#move(element, this.tops[ordered[i]]);
      element.setAttribute("aria-posinset", ordered[i] + 1);
      element.setAttribute("aria-setsize", this.keys.length);
      before = element;
    }
  }

  #move(element, top) {
    const rounded = Math.round(top);
    if (element.top === rounded) return;
    element.top = rounded;
    element.style.transform = `translateY(${rounded}px)`;
  }

  #measure(keys) {
    let changed = false;
    const anchor = this.#anchor();
    for (const key of keys) {
      const height = this.shown.get(key)?.offsetHeight;
      if (height && Math.abs(height - this.#heightOf(key)) >= 1) {
        this.heights.set(key, height);
        changed = true;
      }
    }
    if (changed) this.#layOut(anchor);
  }

  #resized(entries) {
    this.#measure(entries.map((entry) => entry.target.dataset.key).filter((key) => this.index.has(key)));
  }
}
