"""The rows of the table, with their targets: a run of a part measures each of its rows."""

from __future__ import annotations

from typing import Final, Literal, get_args

from bench.growth.rows import Aim, Asked
from ledger.stores.keys import CENSUS
from projections.views import FIXED

Part = Literal["history", "year", "crowds", "costs"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)

MEASURED_VIEWS: Final = (*FIXED, CENSUS)
"""The views whose memory is measured, each by itself."""

_FOR_PEOPLE: Final = Aim("growth", "at most", 1.5)
_COMMAND: Final = (_FOR_PEOPLE, Aim("last", "at most", 500))
_ANSWER: Final = (_FOR_PEOPLE, Aim("last", "at most", 100))
_WORK: Final = (Aim("growth", "at most", 1.1),)
_SHARED: Final = Aim("last", "at most", 1.1)
_CROWD: Final = (Aim("growth", "at most", 1.2),)

COMMANDS: Final = {
    "command reply settled": "`reply ID once` of a settled request",
    "command reply unknown": "`reply ID once` of an unknown request",
    "command sessions": "`sessions`",
    "command pending": "`pending`",
    "command streams": "`streams`",
    "command doctor": "`doctor`",
}

ROUTES: Final = {
    "route sessions": "/v1/sessions?limit=50",
    "route grants": "/v1/grants?limit=50",
    "route pending": "/v1/pending?limit=50",
    "route metrics": "/metrics",
}

SERVING: Final[dict[str, Asked]] = {
    "command start": Asked("`--version`: only the start of a command", "sessions", "ms"),
    **{name: Asked(what, "sessions", "ms", _COMMAND) for name, what in COMMANDS.items()},
    "call reply settled": Asked("`Ledger.reply` of a settled request", "sessions", "ms", _ANSWER),
    "call reply unknown": Asked("`Ledger.reply` of an unknown request", "sessions", "ms", _ANSWER),
    **{name: Asked(f"`GET {path}`", "sessions", "ms", _ANSWER) for name, path in ROUTES.items()},
    "first events": Asked("`GET /v1/events`, first of a new gateway: snapshot", "sessions", "ms", _ANSWER),
    "project grant": Asked("a grant for a project", "sessions", "ms", _ANSWER),
}


RESTARTS: Final[dict[str, Asked]] = {
    "restart": Asked("restart of the server until it answers", "sessions", "s"),
    "restart rewritten": Asked("… of a file that it has written anew", "sessions", "s"),
    "restart in RDB": Asked("… with `aof-use-rdb-preamble yes`", "sessions", "s", (Aim("last", "at most", 5),)),
    "memory restarted": Asked("the server's memory an event after that", "sessions", "bytes"),
    "resident restarted": Asked("… as the system counts it", "sessions", "MB"),
}

YEAR: Final[dict[str, Asked]] = {
    **{f"year {name}": asked._replace(what=f"nothing sealed: {asked.what}") for name, asked in SERVING.items()},
    "year memory": Asked("nothing sealed: the server's memory an event", "sessions", "bytes"),
    **{
        f"hot month {name}": asked._replace(what=f"eleven of twelve sealed: {asked.what}")
        for name, asked in {
            **SERVING,
            "command show sealed": Asked("`show` of a sealed session", "sessions", "ms", _COMMAND),
            "call read sealed": Asked(
                "a sealed session, read by a running process", "sessions", "ms", (Aim("last", "at most", 200),)
            ),
            "verify": Asked("`verify --all`, the archive too", "sessions", "events/s"),
        }.items()
    },
    "hot month sealing": Asked(
        "sealing, by processor time of the command", "sessions", "events/s", (Aim("last", "at least", 20_000),)
    ),
    "hot month freed": Asked("memory that an event leaves when it is sealed", "sessions", "bytes"),
    "hot month memory": Asked("eleven of twelve sealed: the server's memory", "sessions", "MB"),
    "hot month bytes": Asked(
        "… for each event of the whole history", "sessions", "bytes", (Aim("last", "at most", 300),)
    ),
    "hot month resident": Asked("… as the system counts it, with what was freed", "sessions", "MB"),
    **{f"hot month view {view}": Asked(f"… in the view `{view}`", "sessions", "bytes") for view in MEASURED_VIEWS},
    "archive bytes": Asked("the archive's files, for each sealed event", "sessions", "bytes"),
    **{f"hot month {name}": asked for name, asked in RESTARTS.items()},
}

HISTORY: Final[dict[str, Asked]] = {
    **SERVING,
    "floor": Asked("floor: a bare XADD", "sessions", "us"),
    "ask": Asked("ask that a rule allows", "sessions", "x floor", _WORK),
    "reply": Asked("reply to a pending request", "sessions", "x floor", _WORK),
    "expiry": Asked("a lone deadline: lateness", "sessions", "ms", _WORK),
    "xrange": Asked("floor: bare XRANGE, pipelined", "sessions", "events/s"),
    "verify": Asked("`verify --all`, one process", "sessions", "events/s"),
    "verify of xrange": Asked("`verify --all` against bare XRANGE", "sessions", "x", (Aim("last", "at least", 1 / 3),)),
    "verify of redis-py": Asked(
        "… against bare XRANGE through redis-py", "sessions", "x", (Aim("last", "at least", 1 / 3),)
    ),
    "rebuild": Asked("`rebuild`, one process", "sessions", "events/s", (Aim("last", "at least", 40_000),)),
    "verify processor": Asked("`verify --all --jobs 1`: processor time an event", "sessions", "us"),
    "verify with two": Asked("… with two processes", "sessions", "x", (_SHARED,)),
    "rebuild processor": Asked("`rebuild --jobs 1`: processor time an event", "sessions", "us"),
    "rebuild with two": Asked("… with two processes", "sessions", "x", (_SHARED,)),
    "memory": Asked(
        "server's memory an event", "sessions", "bytes", (Aim("last", "at most", 900), Aim("growth", "at most", 1.1))
    ),
    "memory log": Asked("… in the log, and the little that is left", "sessions", "bytes"),
    "memory views": Asked("… in views", "sessions", "bytes"),
    **{f"memory view {view}": Asked(f"… in the view `{view}`", "sessions", "bytes") for view in MEASURED_VIEWS},
    "memory feeds": Asked("… in feeds (bounded: 1,000 lines a partition)", "sessions", "bytes"),
    **RESTARTS,
}

CROWDS: Final[dict[str, Asked]] = {
    "ask by grants": Asked("ask that a project's grant allows", "grants", "us", _CROWD),
    "ask by pending": Asked("ask that a rule allows", "pending", "us", _CROWD),
    "reply by pending": Asked("reply to a pending request", "pending", "us", _CROWD),
    "first ask": Asked("first ask of a new process in a long session", "events", "ms", (Aim("last", "at most", 1500),)),
    "fold": Asked("a settled request in a fold", "requests", "bytes", (Aim("last", "at most", 450),)),
}

KINDS: Final = {
    "session": "a session that is opened, with two rules",
    "allowed": "an ask that a rule allows",
    "pending": "a request that is pending",
    "answered": "… its answer by a person",
    "run": "… its claim and its end",
    "grant": "a grant of a session",
    "closed": "the end of a session",
    "project grant": "a grant of a project",
}

COSTS: Final[dict[str, Asked]] = {
    f"{kind} {where}": Asked(f"{what}: {where}", "", "bytes")
    for kind, what in KINDS.items()
    for where in ("log", "views")
}

TABLES: Final[dict[Part, dict[str, Asked]]] = {
    "history": HISTORY,
    "year": YEAR,
    "crowds": CROWDS,
    "costs": COSTS,
}
