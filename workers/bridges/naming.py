"""What a session is opened with: ids made of what agents have, at most 200 characters that can be seen, and the home."""

from __future__ import annotations

import os

ID_CHARS_MAX = 200


def id_of(text: str) -> str:
    """The text as an id: white space and what cannot be shown become `_`; of a long one its end is kept."""
    shown = "".join(one if one.isprintable() and not one.isspace() else "_" for one in text)
    return shown if len(shown) <= ID_CHARS_MAX else "…" + shown[1 - ID_CHARS_MAX :]


def project_of(folder: str | None) -> str | None:
    """The project of an agent that works in a folder: that folder."""
    return None if not folder else id_of(folder)


def home_of_agent() -> str | None:
    """The home directory of the user whose agent this is, which runs on this machine; None where it has none."""
    found = os.path.expanduser("~")  # noqa: PTH111 - pathlib is slow to import
    return found if found.startswith("/") else None


def new_id(prefix: str) -> str:
    """An id that no other request has, for a call that its agent gives none."""
    return f"{prefix}_{os.urandom(12).hex()}"


def folder_name(session: str) -> str:
    """A session's folder: its id where that is a plain name, else in hexadecimal."""
    plain = session.replace("-", "").replace("_", "").isalnum() and session.isascii()
    return session if plain else f"hex-{session.encode('utf-8', 'surrogatepass').hex()}"[:250]
