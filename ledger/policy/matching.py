"""The one glob engine: tokens of a pattern, matching in linear time, and overlap of two patterns. Pure.

Wildcards: `*` is any run of characters, `?` exactly one, everything else itself (opencode-zh.md 4.2, brutus.md). The
whole value must match. A pattern that ends in ` *` also matches without that tail: `git *` matches `git`. Matching never
backtracks. A pattern of literal texts and stars is cut at its stars; the first piece must stand at the start of the
value and the last at its end, and each piece between is searched once, from the end of the one before. The earliest
position is always sufficient, because a star can match everything that a later position would skip. Other patterns keep
all positions that they may have reached. Paths as in .gitignore are matched name by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from ledger.core.late_patterns import late_pattern

_PATTERNS_MAX: Final = 4_096


class CharacterSet(NamedTuple):
    """One character inside the ranges, or outside of them if `negated`. Without ranges, a negated set is any one."""

    negated: bool
    ranges: tuple[tuple[str, str], ...] = ()

    def takes(self, character: str) -> bool:
        """Return whether the set holds a character."""
        return self.negated != any(low <= character <= high for low, high in self.ranges)


class Star(NamedTuple):
    """Any number of characters other than `stop`. Unless `hidden`, it takes no dot at the beginning of a name."""

    stop: str = ""
    hidden: bool = True

    def takes(self, character: str) -> bool:
        """Return whether the character may be one of the run."""
        return character != self.stop


GlobToken = str | CharacterSet | Star
"""A string is one literal character."""

ANY: Final = CharacterSet(negated=True)
STAR: Final = Star()


def takes(token: GlobToken, character: str) -> bool:
    """Return whether a token matches a character."""
    return token == character if isinstance(token, str) else token.takes(character)


def wildcard_tokens(pattern: str, stop: str = "") -> tuple[GlobToken, ...]:
    """Return the tokens of a wildcard: `*` any text, `?` any character; neither takes `stop`."""
    one = CharacterSet(negated=True, ranges=((stop, stop),)) if stop else ANY
    marks: dict[str, GlobToken] = {"*": Star(stop), "?": one}
    return tuple(marks.get(character, character) for character in pattern)


@lru_cache(maxsize=_PATTERNS_MAX)
def name_tokens(pattern: str) -> tuple[GlobToken, ...]:
    r"""Return the tokens of a glob with `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character."""
    tokens: list[GlobToken] = []
    at = 0
    while at < len(pattern):
        character = pattern[at]
        end = pattern.find("]", at + 2) if character == "[" else -1
        if character == "*":
            if tokens[-1:] != [STAR]:
                tokens.append(STAR)
        elif character == "?":
            tokens.append(ANY)
        elif end > 0:
            tokens.append(_set(pattern[at + 1 : end]))
            at = end
        elif character == "\\" and at + 1 < len(pattern):
            at += 1
            tokens.append(pattern[at])
        else:
            tokens.append(character)
        at += 1
    return tuple(tokens)


def _set(body: str) -> CharacterSet:
    negated = body[:1] in ("!", "^")
    body = body[1:] if negated else body
    ranges, at = [], 0
    while at < len(body):
        wide = at + 2 < len(body) and body[at + 1] == "-"
        ranges.append((body[at], body[at + 2 if wide else at]))
        at += 3 if wide else 1
    return CharacterSet(negated, tuple(ranges))


def pieces_of(tokens: Sequence[GlobToken]) -> tuple[list[str], str] | None:
    """Return the literal texts between the stars, and the stop of all stars; None for other patterns."""
    stops = {token.stop for token in tokens if isinstance(token, Star)}
    if len(stops) > 1 or any(isinstance(token, CharacterSet) for token in tokens):
        return None
    pieces = [""]
    for token in tokens:
        if isinstance(token, str):
            pieces[-1] += token
        else:
            pieces.append("")
    return pieces, stops.pop() if stops else ""


class Automaton:
    """A pattern of `length` places. A star takes any number of items, and its place remains reached.

    A state is the set of places that may be next; bit `length` is the end. `start` is the state before the first item.
    """

    def __init__(self, length: int, stars: Iterable[int]) -> None:
        self.stars = sum(1 << place for place in stars)
        self.end = 1 << length
        self.start = self.skip(1)

    def skip(self, state: int) -> int:
        """Add the places that are reached if stars take nothing."""
        while (more := state | (state & self.stars) << 1) != state:
            state = more
        return state

    def after(self, state: int, taken: int) -> int:
        """Return the state after one item; `taken` are the places that take it. Stars that follow are not skipped."""
        found = state & taken
        return (found & ~self.stars) << 1 | found & self.stars

    def onward(self, state: int) -> int:
        """Return the state after items of any kind and number."""
        return (self.end << 1) - (state & -state) if state else 0


Matcher = Callable[[str], bool]

_OPTIONAL_TAIL: Final = " *"
_CHARACTERS_MAX: Final = 1_024
"""Characters, at most, whose places in a pattern are kept."""


def match(value: str, pattern: str, *, slashes: bool = True, dot_all: bool = True) -> bool:
    """Return whether `pattern` matches the whole of `value`; see `compile_wildcard`."""
    return compile_wildcard(pattern, slashes=slashes, dot_all=dot_all)(value)


def compile_wildcard(pattern: str, *, slashes: bool = True, dot_all: bool = True) -> Matcher:
    r"""Return a function that tests whether a value matches.

    `slashes=False` keeps `\` apart from `/` (the matcher that opencode-zh.md 4.2 prints, and brutus.md);
    `dot_all=False` keeps `*` and `?` from matching a newline (brutus.md).
    """
    if not slashes:
        return compile_normalised(pattern, dot_all=dot_all)
    matches = compile_normalised(normalise(pattern), dot_all=dot_all)
    return lambda value: matches(normalise(value))


def normalise(text: str) -> str:
    """Replace the separators in paths of every system by `/`."""
    return text.replace("\\", "/")


def compile_normalised(pattern: str, *, dot_all: bool = True) -> Matcher:
    """Compile a pattern, without normalising it or the values."""
    stop = "" if dot_all else "\n"
    return optional_tail(pattern, lambda text: compile_marks(text, stop), stop)


def optional_tail(pattern: str, compiled: Callable[[str], Matcher], stop: str = "") -> Matcher:
    """Compile a pattern, and one that ends in ` *` also without that tail."""
    if not pattern.endswith(_OPTIONAL_TAIL):
        return compiled(pattern)
    bare = pattern.removesuffix(_OPTIONAL_TAIL)
    if not stop and "*" not in bare and "?" not in bare:
        start = bare + " "
        return lambda value: value.startswith(start) or value == bare
    without_tail, with_tail = compiled(bare), compiled(pattern)
    return lambda value: with_tail(value) or without_tail(value)


def compile_marks(pattern: str, stop: str = "") -> Matcher:
    """Compile a pattern of `*` and `?`, neither of which matches `stop`, whose tail is not optional."""
    return compile_tokens(wildcard_tokens(pattern, stop)) if "?" in pattern else compile_stars(pattern, stop)


def compile_stars(pattern: str, stop: str = "") -> Matcher:
    """Compile a pattern in which only `*` is no literal character."""
    return _between(pattern.split("*"), stop)


@lru_cache(maxsize=_PATTERNS_MAX)
def whole_glob(pattern: str) -> Matcher:
    """Compile a pattern of `*` and `?` for the whole text, newlines included, once."""
    return compile_marks(pattern)


@lru_cache(maxsize=_PATTERNS_MAX)
def name_glob(pattern: str) -> Matcher:
    r"""Compile a glob with `*`, `?`, `[a-z]`, `[!a]`, and `\` before a literal character."""
    return compile_tokens(name_tokens(pattern))


def compile_tokens(tokens: Sequence[GlobToken]) -> Matcher:
    """Compile the tokens of a pattern."""
    pieces = pieces_of(tokens)
    if pieces is not None:
        return _between(*pieces)
    stars = [at for at, token in enumerate(tokens) if isinstance(token, Star)]
    if not stars:
        return lambda value: len(value) == len(tokens) and all(map(takes, tokens, value))
    first, last = stars[0], stars[-1] + 1
    beginning, middle, ending = tokens[:first], tokens[first:last], tokens[last:]
    inner = pieces_of(middle)
    between = _positions(middle) if inner is None else _between(*inner)
    fixed = len(beginning) + len(ending)

    def matches(value: str) -> bool:
        end = len(value) - len(ending)
        return (
            len(value) >= fixed
            and all(map(takes, beginning, value))
            and all(map(takes, ending, value[end:]))
            and between(value[first:end])
        )

    return matches


def _positions(tokens: Sequence[GlobToken]) -> Matcher:
    """Return a matcher that keeps all positions that a value may have reached."""
    automaton = Automaton(len(tokens), [at for at, token in enumerate(tokens) if isinstance(token, Star)])
    start, stars, end = automaton.start, automaton.stars, automaton.end
    places: dict[str, int] = {}

    def matches(value: str) -> bool:
        state = start
        for character in value:
            taken = places.get(character)
            if taken is None:
                taken = sum(1 << at for at, token in enumerate(tokens) if takes(token, character))
                if len(places) < _CHARACTERS_MAX:
                    places[character] = taken
            # As `Automaton.after` and `Automaton.skip`, without the calls.
            found = state & taken
            state = (found & ~stars) << 1 | found & stars
            while (more := state | (state & stars) << 1) != state:
                state = more
            if not state:
                return False
        return state & end != 0

    return matches


def everything(_value: str) -> bool:
    """Match every text."""
    return True


def _between(pieces: Sequence[str], stop: str) -> Matcher:
    """Return a matcher of literal texts, with any run of characters other than `stop` between two of them."""
    first, *rest = pieces
    if not rest:
        return first.__eq__
    if not stop and not any(pieces):
        return everything
    middle, last = [piece for piece in rest[:-1] if piece], rest[-1]
    if not stop and not middle and not last:
        return lambda value: value.startswith(first)
    if not stop and not middle and not first:
        return lambda value: value.endswith(last)
    shortest = sum(map(len, pieces))

    def matches(value: str) -> bool:
        if len(value) < shortest or not value.startswith(first) or not value.endswith(last):
            return False
        at, end = len(first), len(value) - len(last)
        for piece in middle:
            found = value.find(piece, at, end)
            if found < 0 or (stop and value.find(stop, at, found) >= 0):
                return False
            at = found + len(piece)
        return at <= end and not (stop and value.find(stop, at, end) >= 0)

    return matches


def wildcard_covers(wide: str, narrow: str) -> bool:
    """Return whether one wildcard covers another. A wide pattern with `?` covers only itself: `?` could match a `*`."""
    if wide == narrow:
        return True
    if "?" in wide:
        return False
    matches = compile_normalised(wide)
    return matches(narrow) and (not narrow.endswith(" *") or matches(narrow.removesuffix(" *")))


UNKNOWN: Final = "\ufffe"
"""Any text at all in a word, slashes and dots included. It is a Unicode noncharacter."""

_NAME_STAR: Final = Star("/", hidden=False)
_FOLDERS: Final = Star(hidden=False)
_IN_A_NAME: Final[dict[GlobToken, GlobToken]] = {
    STAR: _NAME_STAR,
    ANY: CharacterSet(negated=True, ranges=(("/", "/"),)),
}
_GLOB = late_pattern(rf"[*?\[{UNKNOWN}]")
_WORD_PIECE = late_pattern(rf"(?:(?<=/)|\A)\*\*+(?=/|\Z)|{UNKNOWN}+")
_WORDS_MAX: Final = 4_096
_TOKENS_MAX: Final = 4_096
"""Tokens, at most, of a text that is compared; a longer one counts as overlapping every pattern."""

_PAIRS_COUNT: Final = 250_000
"""Pairs of characters, at most, that two wildcards are compared by; longer ones count as overlapping."""


def is_glob(text: str) -> bool:
    """Return whether a text holds a character that the shell may expand to names of files."""
    return _GLOB.search(text) is not None


@lru_cache(maxsize=_WORDS_MAX)
def word_tokens(text: str) -> tuple[GlobToken, ...]:
    """Return the tokens of a shell glob."""
    tokens: list[GlobToken] = []
    end = 0
    for piece in _WORD_PIECE.finditer(text):
        tokens += _within_names(text[end : piece.start()])
        tokens.append(STAR if piece.group().startswith(UNKNOWN) else _FOLDERS)
        end = piece.end()
    return (*tokens, *_within_names(text[end:]))


def _within_names(text: str) -> list[GlobToken]:
    return [_IN_A_NAME.get(token, token) for token in name_tokens(text)]


def wildcard_meets(pattern: str, glob: str) -> bool:
    """Return whether some text matches a wildcard (`*` any text, `?` any character) and a shell glob."""
    return meets(_kept_tokens(pattern), word_tokens(glob))


_kept_tokens = lru_cache(maxsize=_WORDS_MAX)(wildcard_tokens)


def meets(rule: Sequence[GlobToken], word: Sequence[GlobToken]) -> bool:
    """Return whether some text matches a pattern, whose stars also match slashes, and a shell glob."""
    if len(rule) > _TOKENS_MAX or len(word) > _TOKENS_MAX:
        return True
    start = (0, 0, False)
    seen, todo = {start}, [start]
    while todo:
        at, place, took = todo.pop()
        if at == len(rule) and place == len(word):
            return True
        left = rule[at] if at < len(rule) else None
        right = word[place] if place < len(word) else None
        stays = isinstance(right, Star)
        following = [(at + 1, place, took)] if left == STAR else []
        if stays:
            following.append((at, place + 1, False))
        if left is not None and right is not None and not _leaves_out(rule, at, word, place, took=took):
            following.append((at if left == STAR else at + 1, place if stays else place + 1, stays))
        todo += [state for state in following if state not in seen]
        seen.update(following)
    return False


def _leaves_out(rule: Sequence[GlobToken], at: int, word: Sequence[GlobToken], place: int, *, took: bool) -> bool:
    """Return whether no character matches both tokens."""
    left, right = rule[at], word[place]
    if right == STAR or left in (STAR, ANY):
        return False
    if isinstance(right, str):
        return not takes(left, right)
    if not isinstance(left, str):
        return False
    if right == _FOLDERS:
        return left == "." and (at == 0 or rule[at - 1] == "/")
    if isinstance(right, CharacterSet):
        return left == "/" or not right.takes(left)
    begins = not took and (place == 0 or word[place - 1] in ("/", _FOLDERS))
    return left == "/" or (left == "." and begins)


def wildcards_meet(one: str, other: str) -> bool:
    """Return whether some text matches both wildcards; a ` *` at the end of either is optional.

    Time is linear in the product of their lengths. Patterns over `_PAIRS_COUNT` count as overlapping.
    """
    return any(
        len(a) * len(b) > _PAIRS_COUNT or _end_together(a, b)
        for a in {one, one.removesuffix(" *")}
        for b in {other, other.removesuffix(" *")}
    )


def _end_together(one: str, other: str) -> bool:
    """Return whether the tokens of one wildcard lead to the end of the other; a star leads to each later place."""
    tokens = wildcard_tokens(other)
    automaton = Automaton(len(tokens), [at for at, token in enumerate(tokens) if token == STAR])
    state = automaton.start
    for left in wildcard_tokens(one):
        taken = sum(
            1 << at for at, token in enumerate(tokens) if isinstance(left, CharacterSet) or token in (left, ANY, STAR)
        )
        state = automaton.onward(state) if left == STAR else automaton.skip(automaton.after(state, taken))
    return state & automaton.end != 0


PathMatcher = Callable[[str], bool]
"""A predicate on a path relative to the pattern's root."""

_ANY: Final = "**"


@lru_cache(maxsize=_PATTERNS_MAX)
def exact_glob(pattern: str) -> PathMatcher:
    """Compile a case-sensitive pattern of the whole path: `src/**/*.ts` is not `lib/src/a.ts`.

    `**` also matches no folder.
    """
    names = _Names(tuple(name for name in pattern.split("/") if name not in ("", ".")))

    def matches(path: str) -> bool:
        state = names.start
        for name in path.split("/"):
            state = names.skip(names.after_name(state, name))
            if not state:
                return False
        return state & names.end != 0

    return matches


@lru_cache(maxsize=_PATTERNS_MAX)
def ignore_glob(pattern: str) -> PathMatcher:
    """Compile a pattern as .gitignore defines it, ignoring case; a matching folder matches with everything inside it.

    A pattern without `/`, apart from a final `/` or `/**`, matches at any depth.
    """
    found = _ignored_names(pattern)
    if not found:
        return lambda _path: found is not None
    names, folder = _Names(found), pattern.endswith("/")

    def matches(path: str) -> bool:
        parts = path.casefold().split("/")
        return names.begin(parts[:-1] if folder else parts, names.after_name, lambda _folder: True)

    return matches


def ignore_reaches(pattern: str) -> PathMatcher:
    """Compile as `ignore_glob`, for a path that may be a shell glob."""
    matches = ignore_glob(pattern)
    return lambda path: matches(path) or (is_glob(path) and ignore_meets(pattern)(path))


@lru_cache(maxsize=_PATTERNS_MAX)
def ignore_meets(pattern: str) -> PathMatcher:
    """Compile as `ignore_glob`, for a path that is a shell glob.

    A folder that only a wildcard of the path matches counts for a pattern of folders (`secret/**`, `secret`), not for
    one of files (`*.pem`): `src/*/a.ts` may be in `src/secret`, and hardly in a folder `x.pem`.
    """
    found = _ignored_names(pattern)
    if not found:
        return lambda _path: found is not None
    names = _Names(found)
    folder = pattern.endswith(("/", "/**")) or "." not in found[-1][1:]
    return lambda path: names.begin(
        path.casefold().split("/"), names.after_glob, lambda name: folder or not is_glob(name)
    )


def _ignored_names(pattern: str) -> tuple[str, ...] | None:
    """Return the names of a .gitignore pattern from its root, `**` among them, without case.

    An empty tuple stands for a pattern that matches everything, None for one that matches nothing.
    """
    text = pattern.removeprefix("./").casefold()
    if text.startswith(("!", "#")):
        return None
    if text in (_ANY, "*"):
        return ()
    body = text.removesuffix("/**").rstrip("/")
    names = tuple(name for name in body.split("/") if name not in ("", "."))
    return names if not names or "/" in body else (_ANY, *names)


class _Names(Automaton):
    """A pattern of names, in which `**` is a star."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(len(names), [place for place, name in enumerate(names) if name == _ANY])
        self._names = names
        self._matchers: list[Matcher] = [name_glob("*" if name == _ANY else name) for name in names]

    def begin(self, names: Sequence[str], after: Callable[[int, str], int], counts: Callable[[str], bool]) -> bool:
        """Return whether the pattern matches all names, or the first ones of them up to a folder that counts.

        `**` at the end of a pattern matches the contents of a folder, not the folder itself.
        """
        state = 1
        for index, name in enumerate(names):
            state = self.skip(state)
            if index and state & self.end and counts(names[index - 1]):
                return True
            state = after(state, name)
            if not state:
                return False
        return state & self.end != 0

    def after_name(self, state: int, name: str) -> int:
        """Return the state after a name."""
        taken = 0
        for place, matches in enumerate(self._matchers):
            if state >> place & 1 and matches(name):
                taken |= 1 << place
        return self.after(state, taken)

    def after_glob(self, state: int, name: str) -> int:
        """Return the state after one of the names that a part of a shell glob stands for."""
        if name == _ANY:
            found = state
            while (more := found | self.skip(self.after_glob(found, "*"))) != found:
                found = more
            return found
        if UNKNOWN in name:
            state = self.onward(state) & ~self.end
            name = UNKNOWN + name.rpartition(UNKNOWN)[2]
        word, taken = word_tokens(name), self.stars
        for place, pattern in enumerate(self._names):
            if state >> place & 1 and pattern != _ANY and meets(name_tokens(pattern), word):
                taken |= 1 << place
        return self.after(state, taken)
