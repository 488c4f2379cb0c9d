"""The notifier's recipients, services and limits: a TOML file, checked before anything runs."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import msgspec

from ledger.core.errors import InputError
from ledger.core.extras import require_extra
from ledger.core.regular_files import read_regular
from ledger.core.requests import check_name
from ledger.core.times import parse_duration
from workers.runtime.project_rules import require_as_trusted
from workers.webpush.services import check_contact, named_service

FILE_BYTES_MAX: Final = 1024 * 1024
FROM_ENVIRONMENT: Final = "env:"

LEASE_OVER_TIMEOUT: Final = 2
"""The ratio of a turn's lease to the time limit of a message: the turn must outlast sending and recording."""


class _Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    steps: list[str] = msgspec.field(default_factory=lambda: ["0s", "1h", "24h", "6d"])
    collapse: str = "5m"
    an_hour_a_session: int = 5
    a_day_a_person: int = 20
    link: str = "7d"


class _Delivery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    timeout: str = "20s"
    retry: str = "30s"
    tries: int = 6
    lease: str = "60s"


class _Person(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    name: str
    services: list[str]
    projects: list[str] = []


class _Push(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contact: str
    services: list[str] = []


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    people: list[_Person] = []
    push: _Push | None = None
    public_url: str | None = None
    timing: _Timing = _Timing()
    delivery: _Delivery = _Delivery()


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """All in ms. `steps` count from the time at which a request began to wait unattended, in order."""

    steps_ms: tuple[int, ...]
    collapse_ms: int
    an_hour_a_session: int
    a_day_a_person: int
    retry_ms: int
    tries: int


class Recipient(msgspec.Struct, frozen=True):
    """A person to notify. No projects and no sessions named means all of them."""

    name: str
    projects: frozenset[str] = frozenset()
    sessions: frozenset[str] = frozenset()

    def cares_for(self, session: str, project: str | None) -> bool:
        """Return whether to notify of this session. A session without a project is a project of its own."""
        in_project = not self.projects or (project or session) in self.projects
        return in_project and (not self.sessions or session in self.sessions)


class Service(msgspec.Struct, frozen=True):
    """One way to reach a person. `name` is recorded and counted: it holds no secret."""

    name: str
    url: str

    def __repr__(self) -> str:
        return f"Service({self.name!r})"


class PushSettings(msgspec.Struct, frozen=True):
    """`contact` is the e-mail address for operators of push services, `services` further ones that may be called."""

    contact: str
    services: tuple[str, ...] = ()


class NotifierSettings(msgspec.Struct, frozen=True, kw_only=True):
    people: tuple[tuple[Recipient, tuple[Service, ...]], ...]
    timing: Timing
    public_url: str | None
    link_ms: int
    timeout_seconds: float
    lease_ms: int
    push: PushSettings | None = None


def read_settings(path: Path, environment: Mapping[str, str] = os.environ) -> NotifierSettings:
    """Return the settings in a file. Raises InputError with what is wrong in it, MissingExtraError without apprise."""
    try:
        content = read_regular(path, FILE_BYTES_MAX)
        require_as_trusted(path, content)
        file = msgspec.convert(tomllib.loads(content.decode()), _File)
    except OSError as error:
        raise InputError(f"`{path}` cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError, msgspec.ValidationError) as error:
        raise InputError(f"`{path}` is not a notifier's configuration: {error}") from error
    return _checked(file, environment)


def _checked(file: _File, environment: Mapping[str, str]) -> NotifierSettings:
    names = [check_name(one.name, "name of a person") for one in file.people]
    if not names and file.push is None:
        raise InputError(
            "nobody is named: write a [[people]] with `name` and `services`, or a [push] for people's own devices"
        )
    if len(set(names)) != len(names):
        raise InputError("two people have the same name; give each their own, with all their services")
    lease_ms, timeout_ms = _ms(file.delivery.lease, "lease"), _ms(file.delivery.timeout, "timeout")
    if lease_ms < LEASE_OVER_TIMEOUT * timeout_ms:
        raise InputError(f"the lease must be at least {LEASE_OVER_TIMEOUT} times the timeout")
    return NotifierSettings(
        people=tuple(
            (Recipient(one.name, frozenset(one.projects)), _services(one, environment)) for one in file.people
        ),
        timing=_timing(file),
        public_url=_public_url(file.public_url),
        link_ms=_ms(file.timing.link, "time that a link holds"),
        timeout_seconds=timeout_ms / 1000,
        lease_ms=lease_ms,
        push=_push(file.push),
    )


def _push(push: _Push | None) -> PushSettings | None:
    if push is None:
        return None
    require_extra("push", "`[push]` in the notifier's configuration")
    return PushSettings(check_contact(push.contact), tuple(named_service(one) for one in push.services))


def _timing(file: _File) -> Timing:
    steps = tuple(0 if one in ("0", "0s") else _ms(one, "step") for one in file.timing.steps)
    if not steps or sorted(set(steps)) != list(steps):
        raise InputError('`steps` must be increasing durations, for example ["0s", "1h", "24h", "6d"]')
    counts = {
        "an_hour_a_session": file.timing.an_hour_a_session,
        "a_day_a_person": file.timing.a_day_a_person,
        "tries": file.delivery.tries,
    }
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"`{name}` must be at least 1, not {count}")
    return Timing(
        steps_ms=steps,
        collapse_ms=0 if file.timing.collapse in ("0", "0s") else _ms(file.timing.collapse, "collapse time"),
        an_hour_a_session=file.timing.an_hour_a_session,
        a_day_a_person=file.timing.a_day_a_person,
        retry_ms=_ms(file.delivery.retry, "first retry"),
        tries=file.delivery.tries,
    )


def _services(person: _Person, environment: Mapping[str, str]) -> tuple[Service, ...]:
    if not person.services:
        raise InputError(f"`{person.name}` has no services; name at least one, for example `ntfy://ntfy.sh/a-topic`")
    found: list[Service] = []
    for number, written in enumerate(person.services, 1):
        url = _url(written, environment)
        name = _service_name(url, person.name, number)
        same = sum(one.name.partition("-")[0] == name for one in found)
        found.append(Service(f"{name}-{same + 1}" if same else name, url))
    return tuple(found)


def _url(written: str, environment: Mapping[str, str]) -> str:
    if not written.startswith(FROM_ENVIRONMENT):
        return written
    variable = written.removeprefix(FROM_ENVIRONMENT)
    if not environment.get(variable):
        raise InputError(f"the environment variable `{variable}` that a service is taken from is not set")
    return environment[variable]


def _service_name(url: str, person: str, number: int) -> str:
    """Return the schema of its URL. Raises InputError, without the URL, which holds secrets."""
    require_extra("notify", "the notifier")
    from apprise import Apprise  # noqa: PLC0415 - an extra, and slow to import

    schema = url.partition("://")[0].lower()
    if "://" not in url or Apprise.instantiate(url) is None:
        raise InputError(
            f"service {number} of `{person}` is not an apprise address; write it like `ntfy://ntfy.sh/a-topic`"
        )
    return check_name(schema, "service")


def _public_url(url: str | None) -> str | None:
    if url is not None and not url.startswith(("http://", "https://")):
        raise InputError(f"the public_url `{url}` must begin with `https://` (or `http://` on a network of your own)")
    return None if url is None else url.rstrip("/")


def _ms(text: str, what: str) -> int:
    ms = parse_duration(text, what)
    if ms is None:
        raise InputError(f"the {what} cannot be `none`")
    return ms
