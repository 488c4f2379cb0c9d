// The items of a list: a request by itself, or alike ones as one group. What a person sees of a group stays as it is:
// who comes later is an item of its own until the person adds it.

import { GROUP_LEAST, GROUP_MOST, likenessOf } from "./shape.js";
import { keyOf } from "./store.js";

export class Arrangement {
  constructor() {
    /** By item: `{key, likeness, rows, later}`; the rows as they are drawn, by key, and how many alike stand elsewhere. */
    this.groups = new Map();
    this.itemOfRow = new Map();
    this.freed = null;
    this.count = 0;
  }

  /** Let the next arrangement put all requests of this likeness together. */
  gather(likeness) {
    this.freed = likeness;
  }

  /**
   * Return the items of these rows, in their order, as `{key, rows}`. `isFixed(key)` tells whether a person may be
   * looking at an item, `isOver(key)` whether a request is no longer pending.
   */
  arrange(rows, { isGrouping, isFixed, isOver }) {
    const known = new Map(rows.map((row) => [keyOf(row), row]));
    const fixed = (key, likeness) => likeness !== this.freed && isFixed(key);
    const placed = new Map();
    const kept = new Map();
    for (const group of this.groups.values()) {
      const left = [...group.rows.keys()].filter((key) => known.has(key));
      if (!left.length || !(isGrouping || fixed(group.key, group.likeness))) continue;
      kept.set(group.key, group);
      if (!fixed(group.key, group.likeness)) group.rows = new Map([...group.rows].filter(([key]) => known.has(key) && isOver(key)));
      for (const key of group.rows.keys()) if (known.has(key)) placed.set(key, group.key);
    }
    const alike = new Map();
    for (const [key, row] of known) {
      const likeness = isGrouping && !placed.has(key) && !isOver(key) ? likenessOf(row) : null;
      if (likeness === null || fixed(key, likeness)) continue;
      if (!alike.has(likeness)) alike.set(likeness, []);
      alike.get(likeness).push(key);
    }
    const loose = (likeness) => [...kept.values()].find((one) => one.likeness === likeness && one.rows.size < GROUP_MOST && !fixed(one.key, likeness));
    for (const [likeness, keys] of alike) {
      while (keys.length) {
        let group = loose(likeness);
        if (!group?.rows.size && keys.length < GROUP_LEAST) break;
        group ??= { key: `group\n${(this.count += 1)}`, likeness, rows: new Map() };
        for (const key of keys.splice(0, GROUP_MOST - group.rows.size)) {
          group.rows.set(key, known.get(key));
          placed.set(key, group.key);
        }
        kept.set(group.key, group);
      }
    }
    for (const group of [...kept.values()]) {
      const isEmpty = ![...group.rows.keys()].some((key) => known.has(key));
      if (isEmpty) kept.delete(group.key);
    }
    this.#note(kept, known, isOver);
    this.groups = kept;
    this.freed = null;
    return this.#inOrder(known, placed);
  }

  /** Note in each group how many pending requests of its likeness stand outside of it. */
  #note(kept, known, isOver) {
    const counts = new Map();
    for (const [key, row] of known) {
      const likeness = isOver(key) ? null : likenessOf(row);
      if (likeness !== null) counts.set(likeness, (counts.get(likeness) ?? 0) + 1);
    }
    for (const group of kept.values()) {
      const own = [...group.rows.keys()].filter((key) => known.has(key) && !isOver(key)).length;
      group.later = group.rows.size < GROUP_MOST ? (counts.get(group.likeness) ?? 0) - own : 0;
    }
    this.alike = counts;
  }

  #inOrder(known, placed) {
    const items = new Map();
    this.itemOfRow = new Map();
    for (const [key, row] of known) {
      const item = placed.get(key) ?? key;
      this.itemOfRow.set(key, item);
      if (!items.has(item)) items.set(item, { key: item, rows: [] });
      items.get(item).rows.push(row);
    }
    return [...items.values()];
  }
}
