from __future__ import annotations

import msgspec


class Danger(msgspec.Struct):
    pass


ARGUMENTS: dict[str, Danger] = {}
