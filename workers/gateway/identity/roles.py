"""Role and reach by group, as mapped in an operator's file. Pure."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

import msgspec

from ledger.core.errors import InputError
from ledger.core.ids import check_id
from workers.gateway.principals import ForbiddenError

PersonRole = Literal["approver", "auditor", "admin"]


class RoleOfGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table `[[roles]]`: the role of a group's members, in some projects or everywhere."""

    group: str
    role: PersonRole
    projects: tuple[str, ...] = ()
    everywhere: bool = False


class RoleAndReach(msgspec.Struct, frozen=True):
    """The role and reach of a person. An empty list of projects is unbounded."""

    role: PersonRole
    projects: tuple[str, ...]


def check_roles(roles: Collection[RoleOfGroup], file: str) -> None:
    """Raise InputError for a table that names neither projects nor `everywhere`, or both."""
    if not roles:
        raise InputError(f"`{file}` maps no group; add a table [[roles]] with `group`, `role` and `projects`")
    for one in roles:
        for project in one.projects:
            check_id(project, "project id")
        if bool(one.projects) == one.everywhere:
            raise InputError(
                f"`{file}`: the group `{one.group}` needs either `projects = […]` or `everywhere = true`, and not both"
            )


def granted(roles: Collection[RoleOfGroup], groups: Collection[str], name: str) -> RoleAndReach:
    """Return the role of the first matching table, with the projects of all tables with that role.

    Raises ForbiddenError for a person in none of the groups.
    """
    fitting = [one for one in roles if one.group in groups]
    if not fitting:
        raise ForbiddenError(f"`{name}` is in no group that has a role here; ask the administrator of this gateway")
    same = [one for one in fitting if one.role == fitting[0].role]
    everywhere = any(one.everywhere for one in same)
    projects = () if everywhere else tuple(dict.fromkeys(project for one in same for project in one.projects))
    return RoleAndReach(fitting[0].role, projects)
