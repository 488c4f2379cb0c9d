"""Searches of a large index: the file is filled directly, with requests that no ledger was asked.

Run: `python -m bench.search --requests 200000`. A row of each kind of query, with the times of the query alone.
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Final

from ledger.stores.port import Position
from projections.search_rows import RequestBegun, RequestEnded, SearchChange, SearchTexts, SessionBegun
from workers.indexer.file import IndexedHead, IndexFile, SessionStep
from workers.indexer.reader import IndexReader, parse_query

REQUESTS_A_SESSION: Final = 10
SESSIONS_AT_ONCE: Final = 500
ROUNDS: Final = 30
LIMIT: Final = 50
BEGAN_MS: Final = 1_760_000_000_000
PROGRAMS: Final = (
    "git push",
    "git commit -m",
    "npm run",
    "pytest -q",
    "cargo build",
    "make",
    "curl -s",
    "rm -rf",
    "ls -la",
)


def word(number: int) -> str:
    """Return one of many words that begin with different letters: `kasumo`."""
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    count = len(syllables)
    return syllables[number % count] + syllables[number // count % count] + syllables[number // count**2 % count]


QUERIES: Final = (
    "",
    "git",
    "git push",
    '"git push"',
    "git push by:person7",
    "git by:person7 project:project3 outcome:allowed",
    "outcome:denied",
    "by:person7 since:30d",
    word(4711),
    f"git {word(4711)}",
    "git nowhere",
    "rule:git project:project3",
    "src ba*",
    "bade*",
)


def sessions(count: int, chance: random.Random) -> Iterator[SessionStep]:
    """Iterate over sessions of ten requests each, a minute apart."""
    for number in range(count):
        begun = SessionBegun(project=f"project{number % 40}", agent=f"agent{number % 7}", token_id=None)
        changes: list[SearchChange] = [begun]
        for index in range(REQUESTS_A_SESSION):
            changes += request(number, index, chance)
        yield SessionStep(
            f"ses_{number:08d}", False, changes, IndexedHead(Position(BEGAN_MS + number * 60_000, 21), 21)
        )


def request(session: int, index: int, chance: random.Random) -> Iterator[SearchChange]:
    words = " ".join(word(int(20_000 * chance.random() ** 3)) for _ in range(12))
    command = f"{chance.choice(PROGRAMS)} {words}"
    at_ms, request_id = BEGAN_MS + session * 60_000 + index * 5000, f"per_{session}_{index}"
    yield RequestBegun(
        request_id=request_id,
        version=2 + 2 * index,
        asked_ms=at_ms,
        permission="bash",
        agent=None,
        asker="agent",
        call=command,
        status="pending",
        reason="rule `*`",
        grants=(),
        texts=SearchTexts(
            command=command, paths=f"/srv/project/src/{words[:20]}.py", input=words, rules=f"bash {command[:3]} *: ask"
        ),
        redacted=False,
    )
    yield RequestEnded(
        request_id=request_id,
        version=3 + 2 * index,
        at_ms=at_ms + 2000,
        status="allowed" if chance.random() < 0.95 else "denied",
        reason="once",
        by=f"person{chance.randrange(30)}",
        reply="once",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--file", type=Path, help="keep the file, and fill it only if it is missing")
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = wanted.file or Path(folder) / "search.sqlite"
        if not file.exists():
            fill(file, wanted.requests)
        ask(file)
        remove_a_session(file)


def fill(file: Path, count: int) -> None:
    with closing(IndexFile(file)) as index:
        index.scrub()
        began = time.perf_counter()
        steps = sessions(count // REQUESTS_A_SESSION, random.Random(1))
        while some := list(islice(steps, SESSIONS_AT_ONCE)):
            index.apply(some)
        taken = time.perf_counter() - began
    print(f"{count} requests: {count / taken:.0f} a second, {file.stat().st_size / count:.0f} bytes each", flush=True)


def remove_a_session(file: Path) -> None:
    """Print the time until the text of one session is in no byte of the file."""
    with closing(IndexFile(file)) as index:
        began = time.perf_counter()
        index.apply([SessionStep("ses_00000001", True, (), IndexedHead(Position(1, 1), 1))])
        assert index.scrub()
        print(f"removal of the text of a session: {time.perf_counter() - began:.1f} s")


def ask(file: Path) -> None:
    """Print the times of each kind of query, and of all."""
    now_ms = BEGAN_MS + 40 * 86_400_000
    everything: list[float] = []
    with closing(IndexReader(file)) as reader:
        for text in QUERIES:
            times = []
            for _ in range(ROUNDS):
                began = time.perf_counter()
                found = reader.search(parse_query(text, now_ms=now_ms), LIMIT).found
                times.append((time.perf_counter() - began) * 1000)
            everything += times
            print(
                f"{text or '(all)':<50} {len(found):>3} rows  p50 {quantile(times, 0.5):7.1f} ms  p95 {quantile(times, 0.95):7.1f} ms"
            )
    print(f"all queries: p95 {quantile(everything, 0.95):.1f} ms")


def quantile(times: list[float], part: float) -> float:
    return sorted(times)[int(part * (len(times) - 1))]


if __name__ == "__main__":
    main()
