"""The stream of notifications: devices, their ends, quiet hours and muted services."""

from __future__ import annotations

from typing import Any, Final

import pytest
from msgspec.structs import replace

from ledger.access.notifications import (
    Choose,
    EndDevice,
    NameServices,
    NoteUse,
    NotificationChoice,
    NotificationsCommand,
    NotificationsState,
    Subscribe,
    decide_notifications,
    evolve_notifications,
)
from ledger.core.access_events import QuietHours
from ledger.core.codec import NewerEvent
from ledger.core.errors import InputError, NewerSchemaError, UnknownDeviceError
from ledger.core.events import Actor, Event
from ledger.core.grants import Recorded
from ledger.core.limits import DEVICES_PER_PERSON_COUNT
from ledger.core.times import DAY_MS

ANN: Final = Actor("person", "ann")
T0: Final = 1_800_000_000_000
QUIET: Final = QuietHours(begin=1320, until=420, zone="Europe/Berlin")


def fold(state: NotificationsState, event: Event | NewerEvent) -> NotificationsState:
    version = state.version + 1
    return evolve_notifications(state, Recorded(event, ANN, T0 + version, version, f"evt_{version}"))


def after(*commands: NotificationsCommand) -> NotificationsState:
    state = NotificationsState()
    for command in commands:
        for event in decide_notifications(state, command):
            state = fold(state, event)
    return state


def subscribe(device: str = "dev_1", **more: Any) -> Subscribe:
    given = {"endpoint": f"https://push.example/{device}", "p256dh": "k", "auth": "a", "token_id": "tok_1"}
    return Subscribe(actor=ANN, device_id=device, **{"person": "ann", "name": "phone", **given, **more})


def end(device: str = "dev_1", **more: Any) -> EndDevice:
    return EndDevice(**{"actor": ANN, "device_id": device, "cause": "removed", **more})


def test_a_device_stands_until_it_is_removed() -> None:
    assert [one.name for one in after(subscribe()).standing("ann")] == ["phone"]
    assert after(subscribe(), end()).standing() == []
    with pytest.raises(UnknownDeviceError, match="there is no device `dev_1`"):
        after(subscribe(), end(), end())


def test_the_same_endpoint_renews_its_device_and_an_unchanged_one_writes_nothing() -> None:
    state = after(
        subscribe(), subscribe("dev_2", endpoint="https://push.example/dev_1", token_id="tok_2", name="Pixel")
    )
    (device,) = state.standing()
    assert (device.device_id, device.token_id, device.name) == ("dev_1", "tok_2", "Pixel")
    again = subscribe("dev_3", endpoint="https://push.example/dev_1", token_id="tok_2", name="Pixel")
    assert decide_notifications(state, again) == ()


def test_a_browser_in_which_somebody_else_signs_in_sends_to_them_alone() -> None:
    state = after(subscribe(), subscribe("dev_2", endpoint="https://push.example/dev_1", person="bob"))
    assert [(one.device_id, one.person) for one in state.standing()] == [("dev_2", "bob")]


def test_a_new_endpoint_of_a_known_browser_takes_the_place_of_the_old_one() -> None:
    old = "https://push.example/dev_1"
    state = after(subscribe(), subscribe("dev_2", replaces=old))
    assert [(one.device_id, one.endpoint) for one in state.standing()] == [("dev_1", "https://push.example/dev_2")]
    assert len(after(subscribe(), subscribe("dev_2", replaces="https://push.example/other")).standing()) == 2
    both = after(subscribe(), subscribe("dev_2"), subscribe("dev_3", endpoint=old.replace("1", "2"), replaces=old))
    assert [one.device_id for one in both.standing()] == ["dev_2"]
    again = subscribe("dev_2", replaces=old)
    assert decide_notifications(state, again) == (), "told twice, it is one change"


def test_a_device_of_somebody_else_is_not_replaced() -> None:
    bob = subscribe("dev_2", person="bob", replaces="https://push.example/dev_1")
    assert [(one.device_id, one.person) for one in after(subscribe(), bob).standing()] == [
        ("dev_1", "ann"),
        ("dev_2", "bob"),
    ]


def test_a_replaced_device_is_not_counted_twice() -> None:
    counted = frozenset(f"dev_{number}" for number in range(DEVICES_PER_PERSON_COUNT))
    moved = subscribe("dev_10", replaces="https://push.example/dev_0", counted=counted)
    assert len(after(subscribe("dev_0"), moved).standing()) == 1
    with pytest.raises(InputError, match="the maximum; remove one first"):
        after(
            subscribe("dev_11", endpoint="https://push.example/gone"),
            replace(moved, replaces="https://push.example/gone"),
        )


def test_a_person_has_ten_devices_in_force_at_most() -> None:
    counted = frozenset(f"dev_{number}" for number in range(DEVICES_PER_PERSON_COUNT))
    with pytest.raises(InputError, match="`ann` has 10 devices with push messages, the maximum; remove one first"):
        after(subscribe("dev_10", counted=counted))
    renewed = after(subscribe("dev_0"), subscribe("dev_10", endpoint="https://push.example/dev_0", counted=counted))
    assert len(renewed.standing()) == 1


def test_a_use_is_recorded_once_a_day() -> None:
    used = NoteUse(actor=ANN, device_id="dev_1", now_ms=T0 + 10)
    state = after(subscribe(), used)
    assert state.devices["dev_1"].used_ms == T0 + 2
    assert decide_notifications(state, replace(used, now_ms=T0 + DAY_MS)) == ()
    assert decide_notifications(state, replace(used, now_ms=T0 + 2 + DAY_MS)) != ()
    assert decide_notifications(state, replace(used, device_id="dev_9")) == ()


def test_a_device_that_was_renewed_at_another_endpoint_is_not_gone() -> None:
    state = after(subscribe())
    assert decide_notifications(state, end(cause="gone", endpoint="https://push.example/old")) == ()
    assert after(subscribe(), end(cause="gone", endpoint="https://push.example/dev_1")).standing() == []


def test_a_person_chooses_for_themselves_and_the_same_choice_writes_nothing() -> None:
    choose = Choose(actor=ANN, person="ann", choice=NotificationChoice(quiet=QUIET, muted=("ntfy",)))
    state = after(choose)
    assert state.choice("ann") == NotificationChoice(quiet=QUIET, muted=("ntfy",))
    assert state.choice("bob") == NotificationChoice()
    assert decide_notifications(state, choose) == ()


def test_services_are_named_once() -> None:
    named = NameServices(actor=ANN, services={"ann": ("ntfy",)})
    state = after(named)
    assert state.services == {"ann": ("ntfy",)}
    assert decide_notifications(state, named) == ()


def test_after_an_event_of_a_newer_version_nothing_is_decided() -> None:
    state = fold(after(subscribe()), NewerEvent(schema=9, event_type="later"))
    with pytest.raises(NewerSchemaError):
        decide_notifications(state, end())


def test_a_device_shows_nothing_of_its_keys() -> None:
    (device,) = after(subscribe(auth="secret")).standing()
    assert "secret" not in repr(device)
