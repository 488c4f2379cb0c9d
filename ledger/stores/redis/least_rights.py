"""The minimal ACL of the ledger's user on a server."""

from __future__ import annotations

from typing import Final

USER: Final = "ledger"
"""The ledger's user name on the server."""

ARCHIVER: Final = "archiver"
"""The user that seals sessions."""

HEALTH_USER: Final = "health"
"""A user without a password who may PING, for health checks."""

_COMMANDS: Final = (
    "+@connection -@dangerous +multi +exec +time +role +info +cluster|slots +memory|usage +scan +exists",
    "+evalsha +script|load +ssubscribe +sunsubscribe +spublish",
    "+hget +hset +hsetnx +hmget +hgetall +hincrby +hdel",
    "+zadd +zrem +zscore +zcard +zrange +zremrangebyscore",
    "+xadd +xlen +xrange +xrevrange +xinfo|stream +xinfo|groups +xinfo|consumers",
    "+xreadgroup +xgroup|create +xgroup|delconsumer +xpending +xautoclaim +xack",
)
"""None of these commands overwrites, renames, expires or deletes a stream or a single entry."""

_ON_OTHER_KEYS: Final = (
    "(~{pl:*}:sure +set)",
    "(~{pl:*}:lease:* ~{pl:*}:askers:* ~{pl:*}:inbox ~{pl:*}:turn:* +pexpire)",
    "(~{pl:*}:view:* +unlink)",
    "(~{pl:*}:sealing:* +pexpire +persist +unlink)",
    "(%RW~{pl:*}:sealing:* %W~{pl:*}:s:* +renamenx)",
)
"""Commands that could overwrite or delete a stream, granted on keys that hold hints, or entries not yet in their place.

The last line brings back a sealed session: it takes such entries to a name that must be free, and no stream from its own.
"""

LEAST_RIGHTS: Final = " ".join(
    ("resetchannels", "~pl:config", "~{pl:*}:*", "&{pl:*}:bell", "-@all", *_COMMANDS, *_ON_OTHER_KEYS)
)
"""Rules of `ACL SETUSER`, for Redis 7 and Valkey 7.2 or newer."""

REDACTING_RIGHTS: Final = (
    f"{LEAST_RIGHTS} +rename +bgrewriteaof +bgsave +slowlog|reset +config|get "
    "(~{pl:*}:redact:* +get +set +del +unlink +pexpire +persist)"
)
"""Rules for the user of `permission-ledger redact`: they let it replace a stream, so no process that serves has them."""

SEALING_RIGHTS: Final = f"{LEAST_RIGHTS} (%RW~{{pl:*}}:sealing:* %W~{{pl:*}}:s:* +rename)"
"""Rules for the user that seals sessions: they let it put a stub in a stream's place, so no process that serves has them."""


DEFAULT_USER: Final = "off resetpass ~* &* +@all"
"""Rules of the default user: nobody can log in as this user, and it keeps every right.

Redis reads its append-only file as this user when it starts, and leaves out each transaction that the user has no right
to: without rights, the whole log.
"""


def acl_file(password_sha256: str, archiver_sha256: str | None = None) -> str:
    """Return the text of a server's `aclfile`: the ledger's user, a health check's, and a default user without a login.

    With a second password there is a user that seals sessions, too.
    """
    archiver = "" if archiver_sha256 is None else f"user {ARCHIVER} on #{archiver_sha256} {SEALING_RIGHTS}\n"
    return (
        f"user default {DEFAULT_USER}\n"
        f"user {HEALTH_USER} on nopass resetchannels -@all +ping\n"
        f"user {USER} on #{password_sha256} {LEAST_RIGHTS}\n"
        f"{archiver}"
    )
