"""OpenCode's options, its built-in rules, and one list of rules from the layers of a policy (opencode-zh.md 9.3)."""

from __future__ import annotations

import posixpath
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from ledger.core.policy import Layer, Rule, Verdict
from ledger.policy.checks import (
    PROFILES,
    GivenOptions,
    Profile,
    RuleOrigin,
    as_rules,
    check_count,
    check_layers,
    origin_of,
    shown,
)
from ledger.policy.dialect import INHERITED
from ledger.policy.facts import FileFacts, NoFacts
from ledger.policy.jsonc import JsonKeys
from ledger.policy.loader import (
    PermissionSection,
    drop_allows,
    from_config,
    merge_sections,
    read_section,
    read_tools,
    section_rules,
)
from ledger.policy.opencode.requests import ACTION_ONLY, OpenCodePlaces, below, worktree_of
from ledger.policy.spelled import UNKNOWN_FOLDER

# --- built-in rules of OpenCode 1.18: for every agent, for each of its own agents, and for its own output
DEFAULT_AGENT: Final = "build"
OWN_AGENTS: Final = frozenset({"build", "plan", "general", "explore", "compaction", "title", "summary"})
_LAYER: Final = "built-in"


class Folders(msgspec.Struct, frozen=True):
    """The folders of the program's own files: `data` (`~/.local/share/opencode`) and `temporary` (`/tmp/opencode`).

    `data` is None when neither it nor the home directory is known; no rule is made for it then. `plans` is the
    pattern of plan files in `data`, relative to the worktree.
    """

    data: str | None
    temporary: str
    plans: str | None

    @property
    def tool_output(self) -> str | None:
        return None if self.data is None else self.data + "/tool-output/*"


def default_rules(folders: Folders) -> tuple[Rule, ...]:
    """Return the rules of every agent. The vendor's page says that `*.env` is denied; the program asks."""
    return _rules(
        {
            "*": "allow",
            "doom_loop": "ask",
            "external_directory": _own_folders(folders),
            "question": "deny",
            "plan_enter": "deny",
            "plan_exit": "deny",
            "read": {"*": "allow", "*.env": "ask", "*.env.*": "ask", "*.env.example": "allow"},
        }
    )


def agent_rules(agent: str, folders: Folders) -> tuple[Rule, ...]:
    """Return the rules that the program adds for one of its own agents; nothing for any other."""
    looking = dict.fromkeys(("grep", "glob", "list", "bash", "webfetch", "websearch", "read"), "allow")
    planning: dict[str, Any] = {"question": "allow", "plan_exit": "allow", "task": {"general": "deny"}}
    if folders.data is not None:
        planning["external_directory"] = {below(folders.data + "/plans"): "allow"}
    planning["edit"] = {"*": "deny", ".opencode/plans/*.md": "allow"}
    if folders.plans is not None:
        planning["edit"][folders.plans] = "allow"
    agents: Mapping[str, Mapping[str, Any]] = {
        "build": {"question": "allow", "plan_enter": "allow"},
        "plan": planning,
        "general": {"todowrite": "deny"},
        "explore": {"*": "deny", **looking, "external_directory": _own_folders(folders)},
        "compaction": {"*": "deny"},
        "title": {"*": "deny"},
        "summary": {"*": "deny"},
    }
    return _rules(agents.get(agent, {}))


def tool_output_rules(folders: Folders, before: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return rules that keep the program's own output readable, unless an earlier rule denies exactly that pattern."""
    pattern = folders.tool_output
    if pattern is None:
        return ()
    for rule in before:
        if rule.permission == "external_directory" and rule.pattern == pattern and rule.action is Verdict.DENY:
            return ()
    return _rules({"external_directory": {pattern: "allow"}})


def child_rules(parent_session: Iterable[Rule], subagent: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the session rules of a sub-agent's session, which come after all other rules of `subagent`.

    `parent_session` are the rules of the parent's *session* (not of its agent): its denies and its rules for
    `external_directory` are inherited. `subagent` are all rules of the sub-agent; `todowrite` and `task` are denied if
    it has no rule for them.
    """
    own = {rule.permission for rule in subagent}
    kept = [rule for rule in parent_session if rule.permission == "external_directory" or rule.action is Verdict.DENY]
    denied = from_config({name: "deny" for name in ("todowrite", "task") if name not in own})
    return (*kept, *denied)


def _own_folders(folders: Folders) -> dict[str, str]:
    own = [folders.tool_output, below(folders.temporary)]
    return {"*": "ask", **{pattern: "allow" for pattern in own if pattern is not None}}


def _rules(config: Mapping[str, Any]) -> tuple[Rule, ...]:
    rules = section_rules(read_section(config), home=None)
    return tuple(msgspec.structs.replace(rule, layer=_LAYER) for rule in rules)


# --- options
OpenCodeEdition = Literal["current", "opencode.md"]
Order = Literal["insertion", "key-length"]
Compat = Literal["v1", "v2"]

_EDITIONS: Final[tuple[OpenCodeEdition, ...]] = ("current", "opencode.md")
_ORDERS: Final[tuple[Order, ...]] = ("insertion", "key-length")
_COMPATS: Final[tuple[Compat, ...]] = ("v1", "v2")
_DATA: Final = "/.local/share/opencode"
_TEMPORARY: Final = "/tmp/opencode"  # noqa: S108 (the program's own folder, named in a rule and never opened)


class OpenCodeOptions(msgspec.Struct, frozen=True):
    """Checked options, with all defaults resolved."""

    profile: Profile = "hardened"
    edition: OpenCodeEdition = "current"
    order: Order = "insertion"
    compat: Compat = "v2"
    agent: str | None = None
    home: str | None = None
    defaults: bool = False
    cwd: str | None = None
    worktree: str | None = None
    sandbox_root: str | None = None
    data: str | None = None
    tmp: str = _TEMPORARY
    facts: FileFacts = msgspec.field(default_factory=NoFacts)

    @property
    def hardened(self) -> bool:
        return self.profile == "hardened"

    def places(self, cwd: str | None = None) -> OpenCodePlaces:
        """Return the places of a call that runs in its own `cwd`, or in the agent's start directory.

        Without a start directory the `cwd` is used, except in the hardened profile, where a call must not define its own
        boundary. The default of `worktree` is the repository that `facts` find around the start. A worktree `/` would
        contain every path, so it is no root.
        """
        directory = posixpath.normpath(cwd or self.cwd or UNKNOWN_FOLDER)
        start = posixpath.normpath(self.cwd) if self.cwd else directory
        tree = posixpath.normpath(self.worktree) if self.worktree else worktree_of(start, self.facts)
        roots: tuple[str, ...] = (start,) if tree in (start, "/") else (start, tree)
        if self.hardened and self.cwd is None:
            roots = ()
        return OpenCodePlaces(directory, tree, roots, self.home, self.facts, self.hardened, self.sandbox_root)

    def folders(self) -> Folders:
        plans = None
        if self.data is not None and (self.worktree or self.cwd) is not None:
            plans = self.places().from_worktree(self.data + "/plans") + "/*.md"
        return Folders(self.data, self.tmp, plans)


_NAMES: Final = (*(name for name in OpenCodeOptions.__struct_fields__ if name != "facts"), "fs")


def read_options(options: Mapping[str, Any], facts: FileFacts | None) -> OpenCodeOptions:
    """Check the options of a source; `fs` among them replaces `facts`. Raises PolicyError."""
    given = GivenOptions("opencode", options, _NAMES)
    profile, edition = given.choice("profile", PROFILES), given.choice("edition", _EDITIONS)
    defaults, home, cwd, data = given.flag("defaults"), given.text("home"), given.folder("cwd"), given.folder("data")
    if data is None and home is not None:
        data = home.rstrip("/") + _DATA
    return OpenCodeOptions(
        profile=profile,
        edition=edition,
        order=given.choice("order", _ORDERS, "insertion" if edition == "current" else "key-length"),
        compat=given.choice("compat", _COMPATS, "v2" if profile == "hardened" else "v1"),
        agent=given.text("agent") or (DEFAULT_AGENT if defaults else None),
        home=home,
        defaults=defaults,
        cwd=cwd,
        worktree=given.folder("worktree"),
        sandbox_root=given.folder("sandbox_root"),
        data=data,
        tmp=given.folder("tmp") or _TEMPORARY,
        facts=given.facts(cwd or "/", facts),
    )


# --- layers
_AGENT_KEYS = ("agent", "mode")
"""Members that hold sections of agents; `mode` is the older name, and its sections come last."""


def configured_rules(layers: tuple[Layer, ...], options: OpenCodeOptions) -> tuple[Rule, ...]:
    """Return all rules of all layers, lowest first.

    Consecutive configurations are merged key by key, followed by their sections for the agent; rules keep the position
    of their layer. A layer that is not trusted is never merged, because merging could replace a deny below it. With
    `defaults` the built-in rules come first, and the one for the program's own output after the last configuration, so
    that rules of a session still come after it. `key-length` sorts the rules of all layers together, as opencode.md's
    "Last match wins" says; rules that a child session inherits stay last. Raises PolicyError.
    """
    check_layers(layers)
    inherited = _inherited_rules(layers, options)  # last in every order
    layers = tuple(layer for layer in layers if layer.name != INHERITED)
    rules: list[Rule] = []
    session = 0
    if options.defaults:
        folders = options.folders()
        rules += default_rules(folders) + agent_rules(options.agent or "", folders)
        session = next((index for index, layer in enumerate(reversed(layers)) if layer.config is not None), len(layers))
    files = layers[: len(layers) - session]
    rules += _layer_rules(files, options)
    if options.defaults:
        rules += tool_output_rules(folders, rules)
    rules += _layer_rules(layers[len(files) :], options)
    check_count(len(rules) + len(inherited))
    return (*(sorted(rules, key=_key_length) if options.order == "key-length" else rules), *inherited)


def rules_of_agents(layers: Iterable[Layer], options: OpenCodeOptions) -> dict[str, int]:
    """Return the agents with sections in configurations, and how many rules these have. Raises PolicyError."""
    found: Counter[str] = Counter()
    for layer in layers:
        if layer.config is None:
            continue
        config, origin = _config_of(layer), origin_of(layer)
        for key in _AGENT_KEYS:
            agents = config.get(key, {})
            if not isinstance(agents, Mapping):
                raise origin.problem(f"`{key}` must be an object", (key,))
            for agent in agents:
                section = _agent_of(config, key, agent, origin)
                found[agent] += len(_merged_rules([(section, origin, (key, agent))], options))
    return found


def _inherited_rules(layers: Iterable[Layer], options: OpenCodeOptions) -> list[Rule]:
    own = [layer for layer in layers if layer.name == INHERITED]
    return _layer_rules(own, options)


def _layer_rules(layers: Sequence[Layer], options: OpenCodeOptions) -> list[Rule]:
    rules: list[Rule] = []
    run: list[Layer] = []
    for layer in layers:
        if layer.config is not None and layer.trusted:
            run.append(layer)
            continue
        rules += _run_rules(run, options)
        run.clear()
        rules += _single_rules(layer, options)
    rules += _run_rules(run, options)
    return rules


def _key_length(rule: Rule) -> tuple[int, str, int, str]:
    return len(rule.permission), rule.permission, len(rule.pattern), rule.pattern


def _single_rules(layer: Layer, options: OpenCodeOptions) -> tuple[Rule, ...]:
    rules = _run_rules([layer], options) if layer.config is not None else placed_rules(layer)
    return rules if layer.trusted else drop_allows(rules)


def placed_rules(layer: Layer) -> tuple[Rule, ...]:
    """Return the rules of a layer, each with the layer as its origin, if it has none of its own. Raises PolicyError."""
    return tuple(
        rule if rule.layer is not None else replace(rule, layer=layer.name, file=rule.file or layer.file)
        for rule in as_rules(layer.rules, origin_of(layer))
    )


def _run_rules(run: list[Layer], options: OpenCodeOptions) -> tuple[Rule, ...]:
    files = [(_config_of(layer), origin_of(layer)) for layer in run]
    rules = _merged_rules([(config, origin, ()) for config, origin in files], options)
    agent = options.agent
    if agent is None:
        return rules
    sections = [
        (_agent_of(config, key, agent, origin), origin, (key, agent)) for key in _AGENT_KEYS for config, origin in files
    ]
    return rules + _merged_rules(sections, options)


def _merged_rules(
    parts: Iterable[tuple[Mapping[str, object], RuleOrigin, JsonKeys]], options: OpenCodeOptions
) -> tuple[Rule, ...]:
    """Return merged rules; the `tools` of every file come before the `permission` of every file."""
    tools: PermissionSection = {}
    permissions: PermissionSection = {}
    for config, origin, keys in parts:
        if "permissions" in config:
            text = "`permissions` is a list of OpenCode 2, which is not supported; write the rules under `permission`"
            raise origin.problem(text, (*keys, "permissions"))
        if "tools" in config:
            tools = merge_sections(tools, read_tools(config["tools"], origin, (*keys, "tools")))
        if "permission" in config:
            section = read_section(config["permission"], origin, (*keys, "permission"))
            if options.edition == "current":
                _refuse_patterns(section, origin, (*keys, "permission"))
            permissions = merge_sections(permissions, section)
    return section_rules(merge_sections(tools, permissions), home=options.home)


def _refuse_patterns(section: PermissionSection, origin: RuleOrigin, keys: JsonKeys) -> None:
    """Refuse patterns for these keys, as the program refuses such a file; `*` alone is equal to an action.

    opencode-zh.md 9.2 reads both forms of every key.
    """
    for name, value in section.items():
        if name in ACTION_ONLY and isinstance(value, dict) and value.keys() - {"*"}:
            text = f"`{name}` takes an action and no patterns; write `allow`, `ask` or `deny`"
            raise origin.problem(text, (*keys, name))


def _config_of(layer: Layer) -> Mapping[str, object]:
    if not isinstance(layer.config, Mapping):
        text = f"a configuration is an object with `permission`, not {shown(layer.config)}"
        raise origin_of(layer).problem(text, ())
    return layer.config


def _agent_of(config: Mapping[str, object], key: str, agent: str, origin: RuleOrigin) -> Mapping[str, object]:
    agents = config.get(key, {})
    if not isinstance(agents, Mapping):
        raise origin.problem(f"`{key}` must be an object", (key,))
    section = agents.get(agent, {})
    if not isinstance(section, Mapping):
        raise origin.problem(f"the section of the agent {shown(agent)} must be an object", (key, agent))
    return section
