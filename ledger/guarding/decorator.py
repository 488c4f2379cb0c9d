"""The decorator `@guarded`, for functions that only run when the ledger allows the call.

The arguments of the function are the input of a tool, which a person may change.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterable, Mapping
from inspect import BoundArguments, Parameter
from pathlib import PurePath
from typing import Any, Final, ParamSpec, TypeVar, get_type_hints

import msgspec

from ledger.client.session import Session
from ledger.client.sync import SyncSession
from ledger.core.errors import InputError
from ledger.core.requests import ToolAskOptions, check_name
from ledger.guarding.context import AskContext, current_asking

_RECEIVERS: Final = ("self", "cls")


class Arguments:
    """The parameters of one function. `names` maps them to members of the input; `leave_out` lists those left out.

    The receiver of a method is left out automatically. The members of a `**` parameter are members of the input. Raises
    InputError for a name that is no parameter.
    """

    def __init__(self, function: Callable[..., Any], names: Mapping[str, str], leave_out: Iterable[str]) -> None:
        self._signature = inspect.signature(function)
        self._parameters = tuple(self._signature.parameters.values())
        self._names = dict(names)
        self._left_out = {*leave_out, *self._receiver()}
        known = self._signature.parameters
        for name in (*self._names, *self._left_out):
            if name not in known:
                raise InputError(f"the function `{function.__name__}` has no parameter `{name}`")
        self._hints = _hints(function)
        members = [self._member(one) for one in self._own() if one.kind is not Parameter.VAR_KEYWORD]
        if twice := next((name for name in members if members.count(name) > 1), None):
            raise InputError(f"two parameters of `{function.__name__}` would be the input's `{twice}`")

    def _receiver(self) -> list[str]:
        first = next(iter(self._signature.parameters), None)
        return [first] if first in _RECEIVERS else []

    def _own(self) -> list[Parameter]:
        return [one for one in self._parameters if one.name not in self._left_out]

    def _member(self, parameter: Parameter) -> str:
        return self._names.get(parameter.name, parameter.name)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> BoundArguments:
        """Bind arguments as a call does, defaults included. Raises TypeError, as the call would."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def input_of(self, bound: BoundArguments) -> dict[str, Any]:
        """Return the input as JSON values. Raises InputError for a value without a JSON form."""
        found: dict[str, Any] = {}
        for parameter in self._own():
            value = _json(parameter.name, bound.arguments[parameter.name])
            members = value if parameter.kind is Parameter.VAR_KEYWORD else {self._member(parameter): value}
            for name, member in members.items():
                if name in found:
                    raise InputError(f"two arguments would be the input's `{name}`")
                found[name] = member
        return found

    def to_run(
        self, bound: BoundArguments, asked: Mapping[str, Any], updated: Mapping[str, Any] | None
    ) -> BoundArguments:
        """Return the arguments of an allowed call. Raises InputError when they differ from the allowed input."""
        if updated is not None:
            return self._changed(bound, asked, updated)
        if not _is_same(self.input_of(bound), asked):
            raise InputError("the arguments were changed while the call waited to be allowed; ask again")
        return bound

    def _changed(self, bound: BoundArguments, asked: Mapping[str, Any], updated: Mapping[str, Any]) -> BoundArguments:
        """Return the arguments of an input that a person changed; unchanged members keep the original object.

        A removed member gives the parameter's default.
        """
        left = dict(updated)
        arguments = {name: value for name, value in bound.arguments.items() if name in self._left_out}
        for parameter in self._own():
            if parameter.kind is Parameter.VAR_KEYWORD:
                continue
            member = self._member(parameter)
            if member in left:
                value = left.pop(member)
                same = member in asked and _is_same(value, asked[member])
                arguments[parameter.name] = (
                    bound.arguments[parameter.name] if same else self._converted(parameter, value)
                )
            elif parameter.kind is Parameter.VAR_POSITIONAL:
                arguments[parameter.name] = ()
            elif parameter.default is Parameter.empty:
                raise InputError(f"the changed input lacks `{member}`, which the tool needs")
            else:
                arguments[parameter.name] = parameter.default
        rest = next((one for one in self._own() if one.kind is Parameter.VAR_KEYWORD), None)
        if rest is not None:
            arguments[rest.name] = {name: self._converted(rest, value) for name, value in left.items()}
        elif left:
            raise InputError(f"the changed input has `{next(iter(left))}`, which the tool does not take")
        ordered = {one.name: arguments[one.name] for one in self._parameters}
        return BoundArguments(self._signature, ordered)

    def _converted(self, parameter: Parameter, value: Any) -> Any:
        wanted: Any = self._hints.get(parameter.name, Any)
        if parameter.kind is Parameter.VAR_POSITIONAL:
            wanted = types.GenericAlias(tuple, (wanted, ...))
        try:
            return msgspec.convert(value, wanted, dec_hook=_object)
        except (msgspec.ValidationError, TypeError, NotImplementedError) as error:
            raise InputError(
                f"the changed input's `{self._member(parameter)}` does not fit the tool: {error}"
            ) from error


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except (NameError, TypeError):
        # Imported for type checkers only: values are then passed as JSON values.
        return {}


def _json(name: str, value: Any) -> Any:
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_builtin)
    except (TypeError, NotImplementedError, RecursionError) as error:
        raise InputError(
            f"the argument `{name}` of type `{type(value).__name__}` has no JSON form; name it in `leave_out` where it "
            "says nothing of what the tool does"
        ) from error


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are equal as JSON; in Python, 1 and True are equal too."""
    return msgspec.json.encode(one, order="sorted") == msgspec.json.encode(other, order="sorted")


def _builtin(value: Any) -> Any:
    if isinstance(value, PurePath):
        return str(value)
    raise NotImplementedError(f"`{type(value).__name__}`")


def _object(kind: type, value: Any) -> Any:
    if issubclass(kind, PurePath) and isinstance(value, str):
        return kind(value)
    raise NotImplementedError(f"a `{kind.__name__}` cannot be made of it")


P = ParamSpec("P")
R = TypeVar("R")


def guarded(
    tool_name: str,
    *,
    session: Session | SyncSession | None = None,
    names: Mapping[str, str] | None = None,
    leave_out: Iterable[str] = (),
    always: Iterable[str] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Ask about each tool call before the function runs, wait without a limit, and claim it: it runs once.

    The tool's input is the function's arguments by name; `names` maps parameters to the member names in the dialect's
    rules (`{"cmd": "command"}`), `leave_out` lists parameters that are no input. The session is the argument, else that
    of `with asking(session)`. If a person changed the input, the function is called with the changed one.
    `always` are the offered grants in place of the dialect's.
    The end is recorded with the function's error, if it raises one.

    A call raises what `Session.ask_tool` raises, and the function has not run then (AlreadyClaimedError: another process
    runs this call, or has run it); InputError also without a session,
    for an argument without a JSON form, and for a changed input that does not fit. Decorating a generator raises
    InputError.
    """
    check_name(tool_name, "tool name")
    fixed = None if session is None else AskContext(session)
    more: ToolAskOptions = {"metadata": dict(metadata or {})}
    if always is not None:
        more["always"] = tuple(always)

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InputError(f"`{function.__name__}` is a generator and would run in parts; guard a function")
        arguments = Arguments(function, names or {}, leave_out)

        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def guarded_coroutine(*args: P.args, **kwargs: P.kwargs) -> Any:
                bound = arguments.bind(args, kwargs)
                asked = arguments.input_of(bound)
                async with (fixed or current_asking(tool_name)).permit(tool_name, asked, **more) as permit:
                    run = arguments.to_run(bound, asked, permit.result.updated_input)
                    return await function(*run.args, **run.kwargs)

            return guarded_coroutine  # type: ignore[return-value]

        @functools.wraps(function)
        def guarded_function(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = arguments.bind(args, kwargs)
            asked = arguments.input_of(bound)
            with (fixed or current_asking(tool_name)).permit_blocking(tool_name, asked, **more) as permit:
                run = arguments.to_run(bound, asked, permit.result.updated_input)
                return function(*run.args, **run.kwargs)

        return guarded_function

    return decorate
