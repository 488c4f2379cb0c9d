// Invisible characters and look-alikes are marked and named: a command that looks harmless must not run as something
// else.

// As in `ledger/core/characters.py`: a test compares them.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u{2800}\u{1D159}]|(?! )\p{Zs}/u;
const LOOK_ALIKE = /[\u{2010}-\u{2015}\u{2018}-\u{201F}\u{2024}\u{2044}\u{2215}\u{2236}\u{2212}\u{037E}\u{0589}\u{01C3}\u{A789}\u{FF01}-\u{FF5E}\u{1D400}-\u{1D7FF}\u{29F8}\u{2216}]/u;
const OTHER_SCRIPT = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}\p{Script=Lisu}]/u;
const WORD = /[\p{L}\p{N}\p{M}_]+/gu;
const NAMES = {
  0x00: "NUL", 0x07: "BELL", 0x08: "BACKSPACE", 0x0d: "CARRIAGE RETURN", 0x1b: "ESCAPE", 0x7f: "DELETE",
  0xa0: "NO-BREAK SPACE", 0xad: "SOFT HYPHEN", 0x200b: "ZERO WIDTH SPACE", 0x200c: "ZERO WIDTH NON-JOINER",
  0x200d: "ZERO WIDTH JOINER", 0x200e: "LEFT-TO-RIGHT MARK", 0x200f: "RIGHT-TO-LEFT MARK",
  0x202a: "LEFT-TO-RIGHT EMBEDDING", 0x202b: "RIGHT-TO-LEFT EMBEDDING", 0x202c: "POP DIRECTIONAL FORMATTING",
  0x202d: "LEFT-TO-RIGHT OVERRIDE", 0x202e: "RIGHT-TO-LEFT OVERRIDE", 0x2060: "WORD JOINER",
  0x2066: "LEFT-TO-RIGHT ISOLATE", 0x2067: "RIGHT-TO-LEFT ISOLATE", 0x2068: "FIRST STRONG ISOLATE",
  0x2069: "POP DIRECTIONAL ISOLATE", 0xfeff: "BYTE ORDER MARK",
};

/** Return the misleading characters of a text: by position, `invisible` or `look-alike`. */
export function oddities(text) {
  const found = new Map();
  if (/^[\x20-\x7e\n\t]*$/.test(text)) return found;
  for (const word of text.matchAll(WORD)) {
    if (!/[A-Za-z]/.test(word[0]) || !OTHER_SCRIPT.test(word[0])) continue;
    let index = word.index;
    for (const letter of word[0]) {
      if (OTHER_SCRIPT.test(letter)) found.set(index, "look-alike");
      index += letter.length;
    }
  }
  let index = 0;
  for (const letter of text) {
    if (letter !== "\n" && letter !== "\t") {
      if (INVISIBLE.test(letter)) found.set(index, "invisible");
      else if (LOOK_ALIKE.test(letter)) found.set(index, "look-alike");
    }
    index += letter.length;
  }
  return found;
}

/** Return a text as nodes, with marks computed here: for texts without marks from the gateway. */
export function reveal(text, classAt = () => "") {
  const odd = oddities(text);
  return nodesOf(text, (index) => odd.get(index), classAt);
}

/**
 * Return a text as nodes, with the marks of its description: spans in code points. Invisible ones are always shown.
 * `classAt(index)` may name a class for a position; runs of one class become one element.
 */
export function revealMarked(text, marks = [], classAt = () => "") {
  const kinds = new Map(marks.flatMap(([start, end, kind]) => Array.from({ length: Math.max(0, end - Math.max(0, start)) }, (_, by) => [Math.max(0, start) + by, kind])));
  return nodesOf(text, (_, point, letter) => oddKind(kinds.get(point), letter), classAt);
}

function oddKind(marked, letter) {
  if (letter === "\n" || letter === "\t") return undefined;
  if (INVISIBLE.test(letter)) return "invisible";
  return marked === "crowded" && letter <= "\u007f" ? undefined : marked;
}

function nodesOf(text, kindAt, classAt) {
  const nodes = [];
  let run = "";
  let runClass = "";
  const flush = () => {
    if (run) nodes.push(runClass ? span(runClass, run) : document.createTextNode(run));
    run = "";
  };
  let index = 0;
  let point = 0;
  for (const letter of text) {
    const kind = kindAt(index, point, letter);
    const wanted = classAt(index) ?? "";
    if (kind) {
      flush();
      nodes.push(marked(letter, kind, wanted));
    } else {
      if (wanted !== runClass) flush();
      runClass = wanted;
      run += letter;
    }
    index += letter.length;
    point += 1;
  }
  flush();
  return nodes;
}

/** Return a text with invisible characters written out, for places without marks. */
export function plain(text) {
  const odd = oddities(text);
  let index = 0;
  let shown = "";
  for (const letter of text) {
    shown += odd.get(index) === "invisible" ? picture(letter.codePointAt(0)) : letter;
    index += letter.length;
  }
  return shown;
}

function marked(letter, kind, wanted) {
  const code = letter.codePointAt(0);
  const shown = kind === "look-alike" ? letter : picture(code);
  const element = span(`odd ${kind} ${wanted}`.trim(), shown);
  element.title = kind === "look-alike" ? `${number(code)}: not the letter it looks like` : nameOf(code);
  return element;
}

function picture(code) {
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `⟨${number(code)}⟩`;
}

function nameOf(code) {
  return NAMES[code] ? `${number(code)} ${NAMES[code]}` : number(code);
}

function number(code) {
  return `U+${code.toString(16).toUpperCase().padStart(4, "0")}`;
}

function span(kind, text) {
  const element = document.createElement("span");
  element.className = kind;
  element.textContent = text;
  return element;
}
