"""The parameters of the routes, as annotated types."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from litestar.di import NamedDependency
from litestar.params import FromPath, FromQuery, QueryParameter

from workers.gateway.gateway import Gateway
from workers.gateway.presence import Presences
from workers.gateway.principals import Principal
from workers.gateway.settings import PAGE_COUNT_MAX, WAIT_SECONDS_MAX

TheGateway: TypeAlias = NamedDependency[Gateway]
ThePresences: TypeAlias = NamedDependency[Presences]
ThePrincipal: TypeAlias = NamedDependency[Principal]

Id: TypeAlias = FromPath[str]
Text: TypeAlias = FromQuery[str]
OptionalText: TypeAlias = FromQuery[str | None]

Limit: TypeAlias = Annotated[int, QueryParameter(ge=1, le=PAGE_COUNT_MAX, required=False)]
OptionalLimit: TypeAlias = Annotated[int | None, QueryParameter(ge=1, le=PAGE_COUNT_MAX, required=False)]
After: TypeAlias = Annotated[int, QueryParameter(ge=0, required=False, description="Only events after this version")]
Wait: TypeAlias = Annotated[
    float, QueryParameter(ge=0, le=WAIT_SECONDS_MAX, required=False, description="Seconds to wait for the outcome")
]
