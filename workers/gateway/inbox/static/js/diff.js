// The difference of two texts as removed, added and unchanged lines.

const CELLS_MAX = 1_000_000;

/** Return lines `{kind: "gone" | "came" | "same", text, from, to}`; `from` and `to` mark the change in a line. */
export function lineDiff(before, after) {
  const a = lines(before);
  const b = lines(after);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail += 1;
  const middle = changed(a.slice(head, a.length - tail), b.slice(head, b.length - tail));
  const all = [...a.slice(0, head).map(same), ...middle, ...a.slice(a.length - tail).map(same)];
  return markWithin(all);
}

/** Return the lines of a patch unchanged, with their signs. */
export function patchLines(text) {
  return text.split("\n").map((line) => ({ kind: patchKind(line), text: line, isRaw: true }));
}

function patchKind(line) {
  if (/^(\+\+\+|---|@@|diff |index |\*\*\* )/.test(line)) return "head";
  return line.startsWith("+") ? "came" : line.startsWith("-") ? "gone" : "same";
}

const same = (text) => ({ kind: "same", text });
const lines = (text) => (text === "" ? [] : text.split("\n"));

function changed(a, b) {
  if (a.length * b.length > CELLS_MAX) {
    return [...a.map((text) => ({ kind: "gone", text })), ...b.map((text) => ({ kind: "came", text }))];
  }
  // Longest common subsequence, from the end, so that the walk goes forward.
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i -= 1) {
    for (let j = b.length - 1; j >= 0; j -= 1) {
      best[i * width + j] = a[i] === b[j]
        ? best[(i + 1) * width + j + 1] + 1
        : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const found = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      found.push(same(a[i]));
      i += 1;
      j += 1;
    } else if (i < a.length && (j === b.length || best[(i + 1) * width + j] >= best[i * width + j + 1])) {
      found.push({ kind: "gone", text: a[i++] });
    } else {
      found.push({ kind: "came", text: b[j++] });
    }
  }
  return found;
}

/** Mark only the difference in a line that one line replaced. */
function markWithin(all) {
  for (let i = 0; i + 1 < all.length; i += 1) {
    const [gone, came] = [all[i], all[i + 1]];
    const alone = all[i - 1]?.kind !== "gone" && all[i + 2]?.kind !== "came";
    if (gone.kind !== "gone" || came.kind !== "came" || !alone) continue;
    let from = 0;
    while (from < gone.text.length && gone.text[from] === came.text[from]) from += 1;
    let back = 0;
    const most = Math.min(gone.text.length, came.text.length) - from;
    while (back < most && gone.text.at(-1 - back) === came.text.at(-1 - back)) back += 1;
    if (from + back === 0) continue;
    Object.assign(gone, { from, to: gone.text.length - back });
    Object.assign(came, { from, to: came.text.length - back });
  }
  return all;
}
