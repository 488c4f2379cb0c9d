"""The page of the inbox and its files. They contain no data of any session, so they are served to everybody.

The page requests its data from `/v1` with the browser's cookie. Files are read once and compressed once, with an `etag`
of their content. The modules become a few scripts, so that a slow connection needs few round trips, without a build
step: each is a function that is called when another one first imports it, as a browser evaluates modules.
"""

from __future__ import annotations

import gzip
import posixpath
import re
from base64 import b64encode
from collections.abc import Collection, Mapping
from functools import cache
from hashlib import sha256
from http import HTTPStatus
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, NamedTuple

import msgspec
from litestar import Request, Response, get
from litestar.exceptions import NotFoundException
from litestar.params import FromPath

_LINE_COMMENT: Final = re.compile(r"^\s*//.*\n", re.MULTILINE)
_BLOCK_COMMENT: Final = re.compile(r"^\s*/\*\*.*?\*/[^\S\n]*\n", re.MULTILINE | re.DOTALL)
_INDENT: Final = re.compile(r"^[^\S\n]+", re.MULTILINE)
_BLANK: Final = re.compile(r"\n{2,}")
_IMPORT: Final = re.compile(r'^import (\{ [\w$]+(?:, [\w$]+)* \}|\* as ([\w$]+)) from "(\.[^"]+)";$', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export ((?:async )?function|class|const) ([\w$]+)", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
_LATER: Final = re.compile(r'\bimport\("(\.[^"]+)"\)')

# Not a module, so that the scripts after it see these names.
_HEAD: Final = """"use strict";
const $modules = {}, $made = new Map();
function $use(name) {
if (!$made.has(name)) { $made.set(name, {}); $modules[name]($made.get(name)); }
return $made.get(name);
}
"""


def reached(modules: Mapping[str, str], entry: str, *, without: Collection[str] = ()) -> dict[str, str]:
    """Return the module `entry` and those that it imports, by path. `modules` are the sources. Raises ValueError.

    Modules of `without`, and those that only they import, are left out.
    """
    found: dict[str, str] = {}
    waiting = [entry]
    while waiting:
        path = waiting.pop()
        if path in found:
            continue
        if path not in modules:
            raise ValueError(f"the inbox has no module `{path}`")
        found[path] = _plain(modules[path])
        imported = (_resolved(path, match[3]) for match in _IMPORT.finditer(found[path]))
        waiting += [one for one in imported if one not in without]
    return found


class Joining(NamedTuple):
    """The scripts around one script.

    `present` are the modules of the scripts that run before it: they are left out. `following` are modules of the script
    that runs right after it: their functions are looked up when they are called. `addresses` has the addresses of
    scripts to fetch later, by module.
    """

    present: Collection[str] = ()
    following: Collection[str] = ()
    addresses: Mapping[str, str] = {}


ALONE: Final = Joining()


def bundled(modules: Mapping[str, str], entry: str, around: Joining = ALONE) -> str:
    """Return one script that does what the module `entry` does. `modules` are the sources by path. Raises ValueError."""
    defined = _defined(modules, reached(modules, entry, without=around.following), around)
    return f"{'' if around.present else _HEAD}{defined}$use({_quoted(entry)});\n"


def following(modules: Mapping[str, str], around: Joining, present: Collection[str]) -> str:
    """Return the script that has the modules `around.following` and those that only they import."""
    found: dict[str, str] = {}
    for entry in sorted(around.following):
        found |= reached(modules, entry)
    return _defined(modules, found, around._replace(present=present, following=()))


def _defined(modules: Mapping[str, str], found: Mapping[str, str], around: Joining) -> str:
    return "".join(
        _as_function(path, text, modules, around) for path, text in found.items() if path not in around.present
    )


def _plain(source: str) -> str:
    """Return a module without its comments, indentation and empty lines."""
    text = _BLOCK_COMMENT.sub("", source)
    return _BLANK.sub("\n", _INDENT.sub("", _LINE_COMMENT.sub("", text)))


def _resolved(path: str, name: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name))


def _as_function(path: str, text: str, modules: Mapping[str, str], around: Joining) -> str:
    """Return a module as a function in the table of modules."""
    exported = [match[2] for match in _EXPORT.finditer(text)]

    def use(match: re.Match[str]) -> str:
        name = _resolved(path, match[3])
        if name in around.following:
            return _calls(match[1], name, modules[name])
        return f"const {match[2] or match[1]} = $use({_quoted(name)});"

    def fetch(match: re.Match[str]) -> str:
        name = _resolved(path, match[1])
        if name not in around.addresses:
            raise ValueError(f"no script has the module `{name}`, which `{path}` fetches")
        return f"import({_quoted(around.addresses[name])}).then(() => $use({_quoted(name)}))"

    text = _LATER.sub(fetch, _EXPORT.sub(r"\1 \2", _IMPORT.sub(use, text)))
    left = _LEFT.search(text)
    if left is not None:
        raise ValueError(f"`{path}` has an import or export of another form: `{left[0]}`")
    # Getters, because a module may import from one that is not finished yet: functions exist from the beginning.
    getters = "".join(f"{name}: {{ get: () => {name} }}, " for name in exported)
    return (
        f"$modules[{_quoted(path)}] = ($exports) => {{\nObject.defineProperties($exports, {{ {getters}}});\n{text}}};\n"
    )


def _calls(imported: str, name: str, source: str) -> str:
    """Return functions that look up those of a module when they are called. Raises ValueError for what is no function."""
    functions = {match[2] for match in _EXPORT.finditer(source) if match[1].endswith("function")}
    named = re.findall(r"[\w$]+", imported)
    if imported.startswith("*") or not functions.issuperset(named):
        raise ValueError(f"`{name}` arrives later, so only its functions can be imported, not `{imported}`")
    return " ".join(f"const {one} = (...$all) => $use({_quoted(name)}).{one}(...$all);" for one in named)


def _quoted(path: str) -> str:
    return f'"{path}"'


MEDIA_TYPES: Final = {
    "css": "text/css",
    "html": "text/html",
    "js": "text/javascript",
    "png": "image/png",
    "svg": "image/svg+xml",
    "webmanifest": "application/manifest+json",
}
"""Servable file types; a file of another type prevents the gateway from starting."""

WORKER: Final = "js/worker.js"
"""The service worker, which browsers load from another address."""

EARLY: Final = "js/early.js"
"""The first script of the page: it asks for the first requests while the rest of the page is on its way."""

ENTRY: Final = "js/main.js"
LATER: Final = "js/later.js"
"""The module that imports the other pages."""

FOLLOWING: Final = frozenset(
    {
        "js/answering.js",
        "js/frozen.js",
        "js/holding.js",
        "js/keys.js",
        "js/load.js",
        "js/lock.js",
        "js/more.js",
        "js/presence.js",
        "js/remembering.js",
        "js/selection-grants.js",
        "js/stream.js",
        "js/unsent.js",
        "js/worker-storage.js",
    }
)
"""Modules of the page that nothing calls before the list is drawn: they stand at its end."""

FOLLOWING_SHEET: Final = "css/pages.css"
DIGEST_CHARS: Final = 16
_SHEET: Final = re.compile(r'<link rel="stylesheet" href="/inbox/([^"]+)">')
_SHEET_LINK: Final = re.compile(r'\s*<link rel="stylesheet" href="/inbox/[^"]+">')
_ENTRY_TAG: Final = f'\n  <script type="module" src="/inbox/{ENTRY}"></script>'
_LAST: Final = '  <div id="whole" hidden></div>\n'
_ENDS: Final = re.compile(r"</(?:script|style)|<!--", re.IGNORECASE)
"""Text that would end an element of the page, or change how it is read."""

SHELL: Final = "inbox.html"
"""The one page; its address selects the part that is shown."""


class StaticFile(msgspec.Struct, frozen=True):
    """A file to serve. `etag` changes with the content, so that a browser can revalidate its copy."""

    media_type: str
    content: bytes
    compressed: bytes
    etag: str
    is_immutable: bool = False
    """The content never changes under this path, which has its digest."""


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files by their path below the folder `static`, for example `js/card.js`."""
    return {path: _read(path, file) for path, file in _below(files(__package__) / "static", "")}


class PageParts(msgspec.Struct, frozen=True):
    """The inbox as it is served: the texts within the page, and the script that is fetched later, with its path."""

    style: str
    early: str
    main: str
    following_style: str
    following: str
    later_path: str
    later: str


@cache
def page_parts() -> PageParts:
    """Return the parts of the page. Raises ValueError for a text that cannot stand within a page."""
    texts = {path: file.content.decode() for path, file in static_files().items() if not path.endswith(".png")}
    scripts = {path: text for path, text in texts.items() if path.endswith(".js")}
    at_first = reached(scripts, EARLY)
    drawing = {*at_first, *reached(scripts, ENTRY, without=FOLLOWING)}
    later = bundled(scripts, LATER, Joining({*at_first, *reached(scripts, ENTRY)}))
    later_path = f"later.{sha256(later.encode()).hexdigest()[:DIGEST_CHARS]}.js"
    around = Joining(at_first, FOLLOWING, {LATER: f"/inbox/{later_path}"})
    sheets = [path for path in _SHEET.findall(texts[SHELL]) if path != FOLLOWING_SHEET]
    return PageParts(
        style=_within("".join(texts[path] for path in sheets)),
        early=_within(bundled(scripts, EARLY)),
        main=_within(bundled(scripts, ENTRY, around)),
        following_style=_within(texts[FOLLOWING_SHEET]),
        following=_within(following(scripts, around, drawing)),
        later_path=later_path,
        later=later,
    )


@cache
def served_files() -> dict[str, StaticFile]:
    """Return the files as they are served: those of the folder, the page with its styles and scripts, and the later script.

    The later script has the digest of its content in its name, so that a browser that has it asks for nothing.
    """
    parts = page_parts()
    page = _SHEET_LINK.sub("", static_files()[SHELL].content.decode()).replace(
        _ENTRY_TAG, f"\n  <script>{parts.early}</script>\n  <style>{parts.style}</style>"
    )
    rest = f"<style>{parts.following_style}</style>\n<script>{parts.following}</script>"
    page = page.replace(_LAST, f"<script>{parts.main}</script>\n{rest}\n{_LAST}")
    later = _file(parts.later_path, parts.later.encode(), is_immutable=True)
    return {**static_files(), SHELL: _file(SHELL, page.encode()), parts.later_path: later}


@cache
def inline_hashes() -> Mapping[str, tuple[str, ...]]:
    """Return the hashes of the texts within the page, for the directives `script-src` and `style-src`."""
    parts = page_parts()
    scripts, styles = (parts.early, parts.main, parts.following), (parts.style, parts.following_style)
    return {"script-src": tuple(map(_hash, scripts)), "style-src": tuple(map(_hash, styles))}


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _within(text: str) -> str:
    """Return a text that can stand within an element of the page. Raises ValueError for one that cannot."""
    found = _ENDS.search(text)
    if found is not None:
        raise ValueError(f"`{found[0]}` cannot stand in a script or style within the page")
    return text


def _below(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for one in sorted(folder.iterdir(), key=lambda entry: entry.name):
        path = f"{prefix}{one.name}"
        found += _below(one, f"{path}/") if one.is_dir() else [(path, one)]
    return found


def _read(path: str, file: Traversable) -> StaticFile:
    return _file(path, file.read_bytes())


def _file(path: str, content: bytes, *, is_immutable: bool = False) -> StaticFile:
    return StaticFile(
        media_type=MEDIA_TYPES[path.rpartition(".")[2]],
        content=content,
        compressed=gzip.compress(content, mtime=0),
        etag=f'"{sha256(content).hexdigest()[:32]}"',
        is_immutable=is_immutable,
    )


HEADERS: Final = {
    # Only our own files run or load, and no other page may frame this one for clickjacking.
    "Content-Security-Policy": (
        f"default-src 'none'; script-src 'self' {' '.join(inline_hashes()['script-src'])}; "
        f"style-src {' '.join(inline_hashes()['style-src'])}; connect-src 'self'; img-src 'self' data:; "
        "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; "
        # Text never becomes markup or code: our scripts do not do it, and the browser forbids it.
        # The one policy makes the address of the service worker, and nothing else (`push.js`).
        "require-trusted-types-for 'script'; trusted-types service-worker"
    ),
    "Cache-Control": "no-cache",  # revalidate each time: a new gateway serves a new page at once
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # an address may contain a sign-in code
    "Vary": "Accept-Encoding",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}

WORKER_POLICY: Final = "default-src 'none'; connect-src 'self'; img-src 'self'"

KEPT: Final = "public, max-age=31536000, immutable"
"""Cache-Control of files whose path has the digest of their content: the page names others after an upgrade."""


@get(
    [
        "/",
        "/sign-in",
        "/sessions",
        "/sessions/{session:path}",
        "/requests/{request_id:path}",
        "/next",
        "/grants",
        "/account",
        "/notifications",
    ],
    include_in_schema=False,
    operation_id="inbox_page",
    sync_to_thread=False,
)
def inbox_page(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the page of the inbox.

    A sign-in link leads here too. Only the button uses it up, not programs that fetch links.
    """
    return _sent(request, served_files()[SHELL])


@get("/inbox/{path:path}", include_in_schema=False, operation_id="inbox_file", sync_to_thread=False)
def inbox_file(request: Request[Any, Any, Any], path: FromPath[str]) -> Response[bytes]:
    """Return a file of the inbox."""
    file = served_files().get(path.lstrip("/"))
    if file is None:
        raise NotFoundException("the inbox has no such file")
    return _sent(request, file)


@get("/sw.js", include_in_schema=False, operation_id="service_worker", sync_to_thread=False)
def service_worker(request: Request[Any, Any, Any]) -> Response[bytes]:
    """Return the service worker, at the root because it serves all pages. It loads its icons and calls `/v1` alone."""
    return _sent(request, static_files()[WORKER], {**HEADERS, "Content-Security-Policy": WORKER_POLICY})


def _sent(request: Request[Any, Any, Any], file: StaticFile, headers: Mapping[str, str] = HEADERS) -> Response[bytes]:
    headers = {**headers, "ETag": file.etag}
    if file.is_immutable:
        headers["Cache-Control"] = KEPT
    if request.headers.get("if-none-match") == file.etag:
        return Response(b"", status_code=HTTPStatus.NOT_MODIFIED, headers=headers, media_type=file.media_type)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["Content-Encoding"] = "gzip"
        return Response(file.compressed, headers=headers, media_type=file.media_type)
    return Response(file.content, headers=headers, media_type=file.media_type)
