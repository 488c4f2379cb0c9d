"""A strategy for events of every type with any content, derived from the types: new fields are tested at once."""

from __future__ import annotations

import functools
import operator
from typing import Any, Final, get_args

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from ledger.core.commitments import as_text
from ledger.core.events import Actor, Event, event_type

EVENT_TYPES: Final[dict[str, type[msgspec.Struct]]] = {event_type(cls): cls for cls in get_args(Event)}

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


salts: st.SearchStrategy[str] = st.just("") | st.binary(min_size=16, max_size=16).map(as_text)


def values_of(kind: inspect.Type) -> st.SearchStrategy[Any]:
    """Return a strategy for the values of a type that an event may hold."""
    match kind:
        case inspect.StructType():
            fields = {field.name: salts if field.name == "salt" else values_of(field.type) for field in kind.fields}
            return st.builds(kind.cls, **fields)
        case inspect.UnionType():
            return functools.reduce(operator.or_, [values_of(one) for one in kind.types])
        case inspect.LiteralType():
            return st.sampled_from(kind.values)
        case inspect.EnumType():
            return st.sampled_from(list(kind.cls))
        case inspect.VarTupleType():
            return st.lists(values_of(kind.item_type), max_size=3).map(tuple)
        case inspect.DictType():
            return st.dictionaries(values_of(kind.key_type), values_of(kind.value_type), max_size=3)
        case inspect.StrType():
            return st.text()
        case inspect.IntType():
            return st.integers(kind.ge or 0, 2**53 if kind.le is None else kind.le)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType():
            return json_values
        case _:
            raise AssertionError(f"no values for {kind}")


def events_of(cls: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return values_of(inspect.type_info(cls))


any_event: Final = st.sampled_from(list(EVENT_TYPES.values())).flatmap(events_of)
any_actor: Final = values_of(inspect.type_info(Actor))
