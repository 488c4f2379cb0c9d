"""`Tool` and `Tool(specifier)` rules, as BetCode and Claude Code write them in `{"permissions": {"allow": […], …}}`.

Also the options of such a policy and its frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import msgspec

from ledger.core.late_patterns import late_pattern
from ledger.core.limits import NAME_LENGTH_CHARS
from ledger.core.policy import Layer, PolicySource, RuleRef, Verdict
from ledger.policy.checks import (
    PROFILES,
    GivenOptions,
    RuleOrigin,
    check_count,
    check_layers,
    check_pattern,
    origin_of,
    shown,
)
from ledger.policy.demands import demands_in
from ledger.policy.errors import PolicyError
from ledger.policy.evaluations import CompiledPolicy
from ledger.policy.facts import FileFacts
from ledger.policy.jsonc import JsonKeys
from ledger.policy.loader import is_there, parse_document, read_text
from ledger.policy.matching import compile_normalised
from ledger.policy.spelled import UNKNOWN_FOLDER

_SECTION: Final = "permissions"
_FINAL: Final = "final"
_LISTS: Final = (("deny", Verdict.DENY), ("ask", Verdict.ASK), ("allow", Verdict.ALLOW), (_FINAL, Verdict.DENY))


class ToolRule(msgspec.Struct, frozen=True):
    """One rule. `specifier` is None for a rule about the whole tool, also when it was written `Tool(*)`.

    `layer` is the name of its layer and `rank` that layer's position, 0 the lowest. `order` is its position among all
    rules, in the order of layers, files' members and lists. A `final` deny is never lifted.
    """

    tool: str
    specifier: str | None
    action: Verdict
    ref: RuleRef
    layer: str = ""
    rank: int = 0
    order: int = 0
    final: bool = False


def parse_rule(text: str) -> tuple[str, str | None]:
    """Return the tool's name and the specifier: everything between the first `(` and the `)` at the end."""
    name, opened, rest = text.partition("(")
    if not opened or not rest.endswith(")") or not name:
        return text, None
    specifier = rest[:-1]
    return name, None if specifier.strip() in ("", "*") else specifier


def read_rules(layers: tuple[Layer, ...]) -> tuple[ToolRule, ...]:
    """Return the rules of all layers, lowest layer first, each layer's in the order of its file.

    A layer that is not trusted gives no allow rules. Raises PolicyError, which names file and line.
    """
    check_layers(layers)
    rules: list[ToolRule] = []
    for rank, layer in enumerate(layers):
        rules += _layer_rules(layer, rank, len(rules))
    check_count(len(rules))
    return tuple(rules)


def _layer_rules(layer: Layer, rank: int, first: int) -> list[ToolRule]:
    origin = origin_of(layer)
    written: list[Written]
    if layer.config is None:
        written = [
            (rule.permission if rule.pattern == "*" else f"{rule.permission}({rule.pattern})", rule.action, (), False)
            for rule in layer.rules
        ]
    else:
        written = check_config(layer.config, origin)
    rules: list[ToolRule] = []
    for text, action, keys, final in written:
        if action is Verdict.ALLOW and (not layer.trusted or text.endswith("()")):
            # `Bash()` allows nothing in Claude Code; a deny or ask of that form applies to the whole tool.
            continue
        tool, specifier = parse_rule(text)
        ref = RuleRef(text, layer.name, layer.file, origin.line(keys))
        rules.append(ToolRule(tool, specifier, action, ref, layer.name, rank, first + len(rules), final))
    return rules


Written = tuple[str, Verdict, JsonKeys, bool]
"""A rule's text, its action, its JSON position, and whether it is final."""


def check_config(config: Any, origin: RuleOrigin) -> list[Written]:
    """Check a configuration and list its rules in its own order. Members other than `permissions` are ignored."""
    if not isinstance(config, Mapping):
        raise origin.problem(f"a configuration is an object with `{_SECTION}`, not {shown(config)}", ())
    section = config.get(_SECTION, {})
    if not isinstance(section, Mapping):
        raise origin.problem(f"`{_SECTION}` must be an object with `allow`, `ask` and `deny`", (_SECTION,))
    actions = dict(_LISTS)
    found: list[Written] = []
    for name, texts in section.items():
        action = actions.get(name)
        if action is None:
            continue
        if not isinstance(texts, list | tuple):
            raise origin.problem(f"`{name}` must be a list of rules, not {shown(texts)}", (_SECTION, name))
        for index, text in enumerate(texts):
            keys = (_SECTION, name, index)
            found.append((_check_text(text, origin, keys), action, keys, name == _FINAL))
    return found


def _check_text(text: Any, origin: RuleOrigin, keys: JsonKeys) -> str:
    if not isinstance(text, str) or not text.strip():
        raise origin.problem(f"a rule is a string such as `Bash(git status)`, not {shown(text)}", keys)
    check_pattern(text, origin, keys)
    name, opened, rest = text.partition("(")
    if opened and not rest.endswith(")"):
        raise origin.problem(f"the rule {shown(text)} has no `)` at its end", keys)
    if not name.strip():
        raise origin.problem(f"the rule {shown(text)} names no tool", keys)
    if len(name) > NAME_LENGTH_CHARS:
        raise origin.problem(f"the tool of {shown(text)} has more than {NAME_LENGTH_CHARS} characters", keys)
    return text


# --- tools of a rule without a specifier
MCP: Final = "mcp__"
_LITERAL_SERVER = late_pattern(r"mcp__(?!_)(?:(?!__)[^*])+__")


def is_glob(tool: str) -> bool:
    """Return whether a rule's tool is a glob, or the name of an MCP server, which stands for all of its tools."""
    return "*" in tool or is_server(tool)


def is_server(tool: str) -> bool:
    return tool.startswith(MCP) and "__" not in tool.removeprefix(MCP)


def names_tool(rule_tool: str, tool: str) -> bool:
    """Return whether the tool side of a rule matches a tool."""
    if "*" in rule_tool:
        return compile_normalised(rule_tool)(tool)
    return tool == rule_tool or (is_server(rule_tool) and tool.startswith(rule_tool + "__"))


def may_allow(rule_tool: str) -> bool:
    """Return whether an allow may use this tool side: `*` is accepted only behind the literal name of an MCP server."""
    return "*" not in rule_tool or _LITERAL_SERVER.match(rule_tool) is not None


def names(rule: ToolRule, tool: str) -> bool:
    """Return whether a rule without specifier matches a tool; an allow must name it, or its server, literally."""
    return names_tool(rule.tool, tool) and (rule.action is not Verdict.ALLOW or may_allow(rule.tool))


# --- files
SECTION: Final = "permissions"
USER_SETTINGS: Final = ".claude/settings.json"
PROJECT_SETTINGS: Final = ".claude/settings.json"
LOCAL_SETTINGS: Final = ".claude/settings.local.json"
MANAGED_SETTINGS: Final = "/etc/claude-code/managed-settings.json"
_IN_THE_PROJECT: Final = ("project", "local")


def load_settings(
    project: str | Path,
    *,
    home: str | None = None,
    flag: str | Path | None = None,
    managed: str | Path = MANAGED_SETTINGS,
    trusted: bool = True,
) -> tuple[Layer, ...]:
    """Return the layers of Claude Code whose files exist, lowest first: user, project, local, flag, managed.

    `flag` is the file of `--settings`, which must then exist. `trusted` concerns the project's folder: without it the
    allow rules of its two files do not count. Raises PolicyError with file and line.
    """
    *own, (highest, last) = settings_files(project, home=home, managed=managed)
    layers = [
        load_tool_rules(path, name=name, trusted=trusted or name not in _IN_THE_PROJECT)
        for name, path in own
        if is_there(path)
    ]
    if flag is not None:
        layers.append(load_tool_rules(flag, name="flag"))
    if is_there(last):
        layers.append(load_tool_rules(last, name=highest))
    return tuple(layers)


def settings_files(
    project: str | Path, *, home: str | None = None, managed: str | Path = MANAGED_SETTINGS
) -> tuple[tuple[str, Path], ...]:
    """Return the settings files of Claude Code, existing or not, each with the name of its layer, lowest first."""
    folder = Path(project)
    user = (("user", Path(home, USER_SETTINGS)),) if home else ()
    own = ("project", folder / PROJECT_SETTINGS), ("local", folder / LOCAL_SETTINGS)
    return (*user, *own, ("managed", Path(managed)))


def load_tool_rules(
    path: str | Path, *, name: str = "project", trusted: bool = True, content: bytes | None = None
) -> Layer:
    """Return one layer from a file with `{"permissions": {"allow": […], "ask": […], "deny": […]}}`.

    Only that member is kept, so that no key or token of the file reaches the log. A settings file without it has no
    rules. `.jsonc` files may hold comments. `content` is what was read from the file already. Raises PolicyError with file and line.
    """
    file = str(path)
    document = parse_document(file, read_text(file, content), comments=file.endswith(".jsonc"))
    config = _kept(file, document.value)
    lines = {where: line for where, line in document.lines.items() if where.split("/")[1:2] == [SECTION]}
    check_config(config, RuleOrigin(name, file, lines))
    demands = demands_in(document.value, RuleOrigin(name, file, document.lines))
    return Layer(name, config=config, file=file, trusted=trusted, lines=lines, demands=demands)


def _kept(file: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PolicyError(f"{shown(file)} must hold an object with `{SECTION}`", file=file)
    return {SECTION: value.get(SECTION, {})}


MODES: Final = ("default", "acceptEdits", "plan", "dontAsk", "bypassPermissions")


class ToolRuleOptions(msgspec.Struct, frozen=True):
    """Options of a source.

    `cwd` is the project, `UNKNOWN_FOLDER` while unknown; `base` is the call's working directory. `home` is the home
    directory of the agent's user. All are absolute; `home` may be unknown.
    """

    hardened: bool
    cwd: str
    home: str | None
    facts: FileFacts
    mode: str = "default"
    base: str = UNKNOWN_FOLDER

    def at(self, cwd: str | None) -> ToolRuleOptions:
        """Return the options for a call that runs in `cwd`.

        In the faithful profile `cwd` replaces an unknown project.
        """
        if cwd is None:
            return self
        base = cwd.rstrip("/") or "/"
        project = base if self.cwd == UNKNOWN_FOLDER and not self.hardened else self.cwd
        return msgspec.structs.replace(self, cwd=project, base=base)

    @property
    def is_placed(self) -> bool:
        """Return whether paths can be inside the project: it is known, or assumed to be."""
        return self.cwd != UNKNOWN_FOLDER or not self.hardened


def read_options(
    dialect: str, options: Mapping[str, Any], facts: FileFacts | None, names: Sequence[str]
) -> ToolRuleOptions:
    """Check the options of a source. `fs` among them replaces `facts`. Raises PolicyError."""
    given = GivenOptions(dialect, options, names)
    hardened, cwd = given.choice("profile", PROFILES) == "hardened", given.folder("cwd")
    return ToolRuleOptions(
        hardened,
        cwd or UNKNOWN_FOLDER,
        given.folder("home"),
        given.facts(cwd or "/", facts),
        given.choice("mode", MODES),
        cwd or UNKNOWN_FOLDER,
    )


class ToolRulePolicy(CompiledPolicy):
    """Rules of a source, compiled. Raises PolicyError for an unknown option and for anything malformed."""

    dialect: ClassVar[str]
    options: ClassVar[Sequence[str]]
    """The names of the options that the dialect has."""

    def __init__(self, source: PolicySource, facts: FileFacts | None = None) -> None:
        super().__init__(source)
        self._options: Final = read_options(self.dialect, source.options, facts, self.options)
        self._rules: Final = read_rules(source.layers)

    @property
    def rules(self) -> tuple[ToolRule, ...]:
        """Return the rules in force, lowest layer first; those of an untrusted layer without its allows."""
        return self._rules
