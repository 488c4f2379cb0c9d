"""A notifier's configuration is read completely or refused, and no message shows a secret of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledger.core.errors import InputError
from workers.notifier.settings import Recipient, Service, Timing, read_settings

WHOLE = """
public_url = "https://permits.example.com/"

[timing]
steps = ["0s", "10m"]
collapse = "1m"
an_hour_a_session = 2
a_day_a_person = 3
link = "1d"

[delivery]
timeout = "5s"
retry = "10s"
tries = 4
lease = "15s"

[[people]]
name = "ann"
services = ["ntfy://topic-1", "ntfy://topic-2", "env:ANN_JSON"]
projects = ["shop"]
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "notify.toml"
    path.write_text(text)
    return path


def test_everything_in_it_is_read(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, WHOLE), {"ANN_JSON": "json://127.0.0.1/x"})
    services = (
        Service("ntfy", "ntfy://topic-1"),
        Service("ntfy-2", "ntfy://topic-2"),
        Service("json", "json://127.0.0.1/x"),
    )
    assert found.people == ((Recipient("ann", frozenset({"shop"})), services),)
    assert found.timing == Timing(
        steps_ms=(0, 600_000),
        collapse_ms=60_000,
        an_hour_a_session=2,
        a_day_a_person=3,
        retry_ms=10_000,
        tries=4,
    )
    assert (found.public_url, found.link_ms) == ("https://permits.example.com", 86_400_000)
    assert (found.timeout_seconds, found.lease_ms) == (5.0, 15_000)


def test_what_is_not_said_is_as_documented(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, '[[people]]\nname = "ann"\nservices = ["json://127.0.0.1"]'), {})
    assert found.timing == Timing(
        steps_ms=(0, 3_600_000, 86_400_000, 518_400_000),
        collapse_ms=300_000,
        an_hour_a_session=5,
        a_day_a_person=20,
        retry_ms=30_000,
        tries=6,
    )
    assert found.public_url is None


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("people = []", "nobody is named"),
        ("x", "is not a notifier's configuration"),
        ('[[people]]\nname = "ann"\nservices = []', "`ann` has no services"),
        ('[[people]]\nname = "ann"\nservices = ["env:MISSING"]', "`MISSING`"),
        ('[[people]]\nname = "ann"\nservices = ["ntfy://t"]\nquiet = 1', "quiet"),
        ('[[people]]\nname = "ann"\nservices = ["nonsense://hunter2@host"]', "service 1 of `ann`"),
        ('[[people]]\nname = "ann"\nservices = ["hunter2"]', "service 1 of `ann`"),
        (
            '[[people]]\nname = "a"\nservices = ["ntfy://t"]\n[[people]]\nname = "a"\nservices = ["ntfy://t"]',
            "same name",
        ),
        ('public_url = "permits"\n[[people]]\nname = "ann"\nservices = ["ntfy://t"]', "public_url"),
        ('[timing]\nsteps = ["1h", "0s"]\n[[people]]\nname = "ann"\nservices = ["ntfy://t"]', "steps"),
        ('[timing]\na_day_a_person = 0\n[[people]]\nname = "ann"\nservices = ["ntfy://t"]', "a_day_a_person"),
        ('[delivery]\nlease = "5s"\n[[people]]\nname = "ann"\nservices = ["ntfy://t"]', "lease"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_secret_is(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(InputError) as refused:
        read_settings(written(tmp_path, text), {})
    assert told in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.toml"):
        read_settings(tmp_path / "nowhere.toml")


def test_a_service_does_not_show_its_address() -> None:
    assert repr(Service("ntfy", "ntfy://user:hunter2@host/topic")) == "Service('ntfy')"


PUSH = """
[push]
contact = "{contact}"
services = ["{service}"]
"""


def test_people_with_devices_of_their_own_need_no_name_in_it(tmp_path: Path) -> None:
    found = read_settings(written(tmp_path, PUSH.format(contact="mailto:ops@example.com", service="Push.Example.com")))
    assert found.people == ()
    assert found.push is not None
    assert (found.push.contact, found.push.services) == ("ops@example.com", ("push.example.com",))


@pytest.mark.parametrize(
    ("contact", "service", "why"),
    [
        ("ops", "push.example.com", "the contact `ops` is not an e-mail address; write it like `ops@example.com`"),
        ("ops@example.com", "https://x.example/y", "the push service `https://x.example/y` is not a host"),
    ],
)
def test_a_contact_or_a_push_service_that_is_none_is_refused(
    tmp_path: Path, contact: str, service: str, why: str
) -> None:
    with pytest.raises(InputError, match=why):
        read_settings(written(tmp_path, PUSH.format(contact=contact, service=service)))
