"""`docs/reference/log-format.md` is true: its hashes are recomputed with the standard library alone, its tables held to
the types."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import msgspec
from msgspec import inspect

from ledger.core import codec
from ledger.log.verify import KINDS, Head, verify_entries
from ledger.stores.keys import Keys
from ledger.stores.port import Entry, Position, StreamKey
from tests.support.events import EVENT_TYPES

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "log-format.md").read_text(encoding="utf-8")


def block(language: str) -> list[str]:
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return str(found).splitlines()


def table(heading: str) -> list[list[str]]:
    """The cells of the table that begins with this heading row."""
    _, _, rest = PAGE.partition(heading + "\n")
    rows: list[list[str]] = []
    for line in rest.splitlines()[1:]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split("|")])
    return rows


def members(heading: str, first: str) -> list[tuple[str, str]]:
    """The members and their meanings of the list below a heading that begins with this member."""
    _, _, rest = PAGE.partition(f"\n## {heading}\n")
    lines = rest[rest.index(f"\n- `{first}`: ") + 1 :].splitlines()
    end = next(at for at, line in enumerate(lines) if not line.startswith("- "))
    return [(name.strip("`"), meaning) for name, _, meaning in (line[2:].partition(": ") for line in lines[:end])]


def examples() -> list[tuple[str, str, bytes | None]]:
    """Return id, payload and content of each entry, which stand in lines of their own."""
    found: list[tuple[str, str, bytes | None]] = []
    for line in block("entries"):
        entry_id, name, value = line.split(" ", 2)
        if name == "d":
            found.append((entry_id, value, None))
        else:
            found[-1] = (entry_id, found[-1][1], value.encode())
    return found


def hashes() -> list[str]:
    return [line.split(" ")[0] for line in block("hashes")]


def sha(text: str) -> str:
    return sha256(text.encode()).hexdigest()


def test_the_hashes_of_the_three_entries_are_as_written() -> None:
    (first, one, _), (_, two, _), (third, three, _) = examples()
    assert hashes() == [
        sha("permission-ledger\nsession:ses_1"),
        sha(f"{first}\n{one}"),
        sha(f"2\n{two}"),
        sha(f"{third}\n{three}"),
    ]


def test_each_of_the_three_entries_bears_its_hash() -> None:
    assert [json.loads(payload)["prev"] for _, payload, _ in examples()] == hashes()[:3]


def test_the_last_two_are_of_one_append() -> None:
    times = [entry_id.split("-") for entry_id, *_ in examples()]
    assert [version for _, version in times] == ["1", "2", "3"]
    assert times[0][0] < times[1][0] == times[2][0]


def test_the_three_entries_are_what_the_ledger_writes_and_verifies() -> None:
    entries = [Entry(*Position.parse(entry_id), payload.encode(), content) for entry_id, payload, content in examples()]
    head = Head(entries[-1].position, hashes()[-1])
    assert verify_entries(StreamKey("session", "ses_1"), entries, head=head) == []
    for entry in entries:
        read = codec.decode(entry.payload, entry.content)
        assert isinstance(read, codec.Envelope)
        again = codec.encode(read.event, event_id=read.id, prev=read.prev, actor=read.actor, salt="")
        assert again == (entry.payload, entry.content)


def test_the_members_of_a_payload_are_all_described() -> None:
    found = members("An entry", "v")
    assert [name for name, _ in found] == list(codec.Envelope.__struct_fields__)
    assert found[0][1].endswith(f"of the event, {codec.SCHEMA_VERSION} today")


def test_partitions_and_keys_are_as_written() -> None:
    rows = table("| name | partition of 256 | key |")
    assert len(rows) == 2
    keys = Keys(256)
    for name, partition, key in rows:
        stream = StreamKey.parse(name.strip("`"))
        assert int(partition) == crc32(name.strip("`").encode()) % 256 == stream.partition(keys.count)
        assert key == f"`{keys.stream(stream)}`"


def test_every_type_of_event_is_listed_with_its_fields_and_what_is_in_its_detail() -> None:
    rows = dict(members("Types of events", "session_opened"))
    assert list(rows) == list(EVENT_TYPES)
    for tag, cls in EVENT_TYPES.items():
        when, *told = rows[tag].split("<br>")
        detail = members_of(inner_of(cls, "detail"))
        assert when
        assert told == [part for part in (members_of(cls), detail and f"`detail`: {detail}") if part], tag


def test_every_shape_inside_an_event_is_listed() -> None:
    assert dict(members("Shapes inside events", "settings")) == shapes_today()


def test_every_member_with_few_values_is_listed_with_them() -> None:
    assert dict(members("Shapes inside events", "cascade_reject")) == values_today()


def test_every_kind_of_problem_is_explained() -> None:
    assert [name for name, _ in members("What `verify` finds", "altered")] == list(KINDS)


def test_every_link_within_the_page_leads_somewhere() -> None:
    headings = re.findall(r"^## (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^a-z -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) - anchors == set()


# --- what the types say today -------------------------------------------------------------------------------------------


def members_of(cls: type[msgspec.Struct] | None) -> str:
    fields = [] if cls is None else [field for field in _fields(cls) if field.encode_name not in ("detail", "salt")]
    return " ".join(f"`{field.encode_name}{'' if field.required else '?'}`" for field in fields)


def shapes_today() -> dict[str, str]:
    """Every structure below an event, by the name of the member that holds it, in order of appearance."""
    found: dict[str, str] = {}
    for cls in EVENT_TYPES.values():
        _collect_shapes(cls, found)
    return found


def _collect_shapes(cls: type[msgspec.Struct], found: dict[str, str]) -> None:
    for field in _fields(cls):
        inner = inner_of(cls, field.encode_name)
        if inner is None:
            continue
        if field.encode_name != "detail":
            known = found.setdefault(field.encode_name, members_of(inner))
            if known != members_of(inner):
                found[f"{field.encode_name} of {cls.__name__.lower()}"] = members_of(inner)
        _collect_shapes(inner, found)


def values_today() -> dict[str, str]:
    """Every member that takes one of a closed list, with all the values it takes anywhere."""
    found: dict[str, list[str]] = {}
    seen: set[type[msgspec.Struct]] = set()

    def collect(cls: type[msgspec.Struct]) -> None:
        if cls in seen:
            return
        seen.add(cls)
        for field in _fields(cls):
            for value in _values_in(field.type):
                known = found.setdefault(field.encode_name, [])
                if value not in known:
                    known.append(value)
            inner = inner_of(cls, field.encode_name)
            if inner is not None:
                collect(inner)

    for cls in EVENT_TYPES.values():
        collect(cls)
    return {name: " ".join(f"`{value}`" for value in values) for name, values in found.items()}


def _fields(cls: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(cls)
    assert isinstance(info, inspect.StructType)
    return info.fields


def inner_of(cls: type[msgspec.Struct], name: str) -> type[msgspec.Struct] | None:
    return next((_struct_in(field.type) for field in _fields(cls) if field.encode_name == name), None)


def _struct_in(kind: inspect.Type) -> type[msgspec.Struct] | None:
    match kind:
        case inspect.StructType():
            return kind.cls
        case inspect.UnionType():
            return next((inner for one in kind.types if (inner := _struct_in(one))), None)
        case inspect.VarTupleType():
            return _struct_in(kind.item_type)
        case _:
            return None


def _values_in(kind: inspect.Type) -> list[str]:
    match kind:
        case inspect.LiteralType():
            return [str(value) for value in kind.values]
        case inspect.EnumType():
            return [str(member.value) for member in kind.cls]
        case inspect.UnionType():
            return [value for one in kind.types for value in _values_in(one)]
        case _:
            return []
