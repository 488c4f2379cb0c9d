"""Memory of processes over time: sampled, and judged by its growth after a warm-up."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean
from typing import Final

import msgspec

MEGABYTE: Final = 2**20

WARM_SHARE: Final = 0.4
"""The first share of a process's samples, in which its caches fill."""

END_SHARE: Final = 0.25
"""The share of the other samples that is taken together at their beginning, and at their end."""

JUDGED_SECONDS: Final = 240.0
"""The shortest time of samples that is judged: a process takes a minute or two until its caches are full."""

SERIES_COUNT: Final = 60
"""The number of samples of a process that the results keep, at most."""

NOISE_BYTES: Final = 4 * MEGABYTE
"""Growth that says nothing: what an allocator keeps, and buffers of a burst."""

LOADED_BYTES: Final = range(16 * MEGABYTE, 80 * MEGABYTE)
LOADED_SECONDS: Final = 45.0
"""A process that reads its first sealed session loads a library: about 50 MB, once, within this time."""

BYTES_A_REQUEST_MAX: Final = 256
"""The growth allowed for each request of that time. A leak of each request's state would be 2 kB or more."""


SERVER_BYTES_A_REQUEST_MAX: Final = 700
"""That of the server, which keeps a stub of each sealed session, and its rows in the views: 200 bytes an event, of which
a request of the soak has three and a half."""


class Sample(msgspec.Struct, frozen=True):
    """The memory and the open files of a process, and how many requests had ended by then."""

    at_seconds: float
    resident_bytes: int
    files: int
    requests: int


class MemoryRow(msgspec.Struct, frozen=True, kw_only=True):
    """Growth of one process. `flat` is None for too short a life; `series` are some of the samples."""

    process: str
    samples: int
    warm_bytes: float
    end_bytes: float
    files_warm: float
    files_end: float
    requests: int
    flat: bool | None
    series: list[Sample]

    @property
    def growth(self) -> float:
        return self.end_bytes - self.warm_bytes

    @property
    def a_request(self) -> float:
        return self.growth / max(1, self.requests)


def row_of(process: str, samples: Sequence[Sample], a_request_max: int = BYTES_A_REQUEST_MAX) -> MemoryRow:
    """Return the growth from the end of the warm-up to the last samples; `a_request_max` bytes are allowed a request."""
    later = without_loading(samples)[int(len(samples) * WARM_SHARE) :]
    some = max(1, int(len(later) * END_SHARE))
    first, last = later[:some], later[-some:]
    warm, end = (fmean(one.resident_bytes for one in part) for part in (first, last))
    requests = last[-1].requests - first[0].requests
    is_flat = end - warm <= max(NOISE_BYTES, a_request_max * requests)
    is_judged = last[-1].at_seconds - samples[0].at_seconds >= JUDGED_SECONDS
    return MemoryRow(
        process=process,
        samples=len(samples),
        warm_bytes=warm,
        end_bytes=end,
        files_warm=fmean(one.files for one in first),
        files_end=fmean(one.files for one in last),
        requests=requests,
        flat=is_flat if is_judged else None,
        series=[one for index, one in enumerate(samples) if index % (1 + len(samples) // SERIES_COUNT) == 0],
    )


def without_loading(samples: Sequence[Sample]) -> list[Sample]:
    """Return the samples without the one step of a library that was loaded, as if it had been there from the start."""
    steps = [
        (after.resident_bytes - before.resident_bytes, before.at_seconds, after.at_seconds)
        for before, after in _pairs(samples)
    ]
    size, since, until = max(steps, default=(0, 0.0, 0.0))
    if size not in LOADED_BYTES:
        return list(samples)
    return [
        Sample(
            one.at_seconds,
            one.resident_bytes + round(size * min(1.0, max(0.0, (until - one.at_seconds) / (until - since)))),
            one.files,
            one.requests,
        )
        for one in samples
    ]


def _pairs(samples: Sequence[Sample]) -> Iterator[tuple[Sample, Sample]]:
    """Iterate over the samples with the last one within the time of a load after each."""
    last = 0
    for before in samples:
        while last + 1 < len(samples) and samples[last + 1].at_seconds - before.at_seconds <= LOADED_SECONDS:
            last += 1
        if samples[last].at_seconds > before.at_seconds:
            yield before, samples[last]


def memory_of(pid: int) -> tuple[int, int] | None:
    """Return resident bytes and open files of a process; None where it has ended."""
    with suppress(OSError, IndexError):
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        return pages * resource.getpagesize(), sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
    return None


def marked_processes(mark: str) -> list[int]:
    """Return the processes with a text in their environment, this one excepted."""
    found: list[int] = []
    for place in Path("/proc").iterdir():
        if place.name.isdecimal() and int(place.name) != os.getpid():
            with suppress(OSError):
                # A zombie has ended, and has no environment any more.
                if mark.encode() in (place / "environ").read_bytes():
                    found.append(int(place.name))
    return found
