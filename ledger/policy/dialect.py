"""The protocol of a dialect: the language of a configuration, and the rules of the program that it comes from.

A dialect is one object in its own folder, and one line in `ledger.policy.dialects`. Other modules ask the object and
never compare its name. A member without an abstract mark has the default of a plain dialect. Facts about its language
are in `language`; the writing of entries, the words for agents and the file of an `always` are objects. The rules of any
dialect have one form, `ListedRule`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from ledger.core.events import CascadeReject, Extending, Scope
from ledger.core.policy import Call, Evaluation, Grant, Layer, Policy, PolicySource, Rule, RuleRef, Verdict
from ledger.policy.checks import NOWHERE, check_action, check_pattern, check_permission
from ledger.policy.loader import EDIT_TOOLS

WHOLE: Final = "*"
"""The pattern of a rule for a whole tool."""


class ListedRule(msgspec.Struct, frozen=True):
    """One rule. `pattern` is `*` for a whole tool; `ref` is the rule as its dialect spells it.

    `rank` is the position of its layer and `final` marks a deny that nothing lifts; only BetCode's rules have them.
    """

    permission: str
    pattern: str
    action: Verdict
    ref: RuleRef
    rank: int = 0
    final: bool = False

    @property
    def place(self) -> str:
        """Return the place of the rule, `-` where none is known."""
        return self.ref.place or "-"

    def as_json(self) -> dict[str, Any]:
        return {
            "permission": self.permission,
            "pattern": self.pattern,
            "action": self.action.value,
            "layer": self.ref.layer,
        }


class NamedEntry(NamedTuple):
    """One entry of a permission that matches a call.

    `because`: the reason why it matches more than the call, else None.
    """

    permission: str
    entry: str
    because: str | None = None


def every_call(permission: str, entry: str) -> NamedEntry:
    return NamedEntry(permission, entry, f"the narrowest rule covers every call of `{permission}`")


def without_wildcard(permission: str, entry: str, text: str, wildcards: str) -> NamedEntry:
    """Return the entry for a text, which reaches further if one of the wildcards is in it."""
    wild = next((one for one in wildcards if one in text), None)
    because = f"`{wild}` in a rule matches any text, so no rule names `{text}` alone" if wild else None
    return NamedEntry(permission, entry, because)


def named_pattern(permission: str, text: str) -> NamedEntry:
    """Return the entry of a wildcard language for one text of a permission."""
    if text == "*":
        return every_call(permission, "*")
    if permission == "external_directory" and text.endswith("/*"):
        because = f"the narrowest rule, `{permission}` `{text}`, covers everything below that folder"
        return NamedEntry(permission, text, because)
    return without_wildcard(permission, text, text, "*?")


DEFAULT_LAYER: Final = "project"
"""The name of the layer of a file that is named without one."""

FAITHFUL: Final = "faithful"
"""The profile in which a source's own program is followed to the letter."""

INHERITED: Final = "parent"
"""The name of the layer with what a child inherits."""

REJECTED: Final = "The user rejected permission to use this specific tool call."

_LOWER_CASE_TOOLS: Final = EDIT_TOOLS | {
    "bash", "shell", "read", "glob", "grep", "list", "task", "webfetch", "websearch", "todowrite", "todoread", "skill",
}  # fmt: skip


class Language(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a language of rules and its program.

    - `options`: options of a question that the policy takes besides its rules; all others are ignored.
    - `section`: the member of a configuration that holds the rules; `members`: those of that section where they are
      fixed, so that a rule under any other does not count; `sections`: members of which one must be there, if any.
    - `takes_comments`: files may hold comments and trailing commas, whatever their name.
    - `rule_files`: files of the project's folder where the program looks for rules.
    - `shell`: the tool that runs command lines; `tools`: names that a rule probably means, so that a similar unknown
      one is reported; `tool_kinds`: kinds of the built-in tools, one for all dialects.
    - `asked_as`: names for which no call asks, each with the name that it asks for.
    - `joins_server_names`: the tool `t` of a server `s` is `s_t`, and not `mcp__s__t`.
    - `last_match`: permissions and patterns are wildcards, and the last matching rule decides; else the strictest.
    - `tool_rules`: rules are `Tool` or `Tool(specifier)`, with paths in the syntax of .gitignore.
    - `sorts_permissions`: rules are sorted by permission, so their order in a file decides only within one.
    - `wildcards`: the characters that a pattern for commands cannot match literally.
    - `asks_about`: the calls that are asked about without any rule, in words.
    - `keeping_a_deny`: advice for a deny that an allow must not lift.
    - `suggested_layer`: the name of a layer of suggested rules, where the name has a meaning.
    - `keeps_suggestions`: suggested entries are offered as they are, because the program shows them word for word.
    - `offers_glued`: suggested entries such as `git tag*` are offered beside the family `git tag *`.
    """

    options: tuple[str, ...] = ("profile", "cwd", "home", "fs")
    section: str = "permission"
    members: tuple[str, ...] = ()
    sections: frozenset[str] = frozenset()
    takes_comments: bool = False
    rule_files: tuple[str, ...] = ()
    shell: str = "bash"
    tools: tuple[str, ...] = ()
    tool_kinds: Mapping[str, str] = {}
    asked_as: Mapping[str, str] = {}
    joins_server_names: bool = False
    last_match: bool = False
    tool_rules: bool = False
    sorts_permissions: bool = False
    wildcards: str = "*?"
    asks_about: str = "everything"
    keeping_a_deny: str = "write the deny below the allow"
    suggested_layer: str = "suggested"
    keeps_suggestions: bool = False
    offers_glued: bool = True


class Notation(ABC):
    """The writing of rules, and their relations."""

    @abstractmethod
    def listed(self, rules: Any) -> tuple[ListedRule, ...]:
        """Return the rules of a compiled policy, in the dialect's own order: lowest layer first."""

    @abstractmethod
    def config(
        self, entries: Iterable[tuple[str, str]], action: Verdict, layers: Sequence[Layer] = ()
    ) -> dict[str, Any]:
        """Return a configuration that gives an action to entries, each with its permission.

        It overrides no other rule of `layers`, the layers below.
        """

    def rule_config(self, rule: ListedRule) -> dict[str, Any]:
        """Return a configuration that holds only this rule."""
        return self.config([(rule.permission, self.entry_of(rule))], rule.action)

    def entry_of(self, rule: ListedRule) -> str:
        """Return the entry of a rule for `config`."""
        return rule.ref.text

    def shown_entry(self, entry: str, action: Verdict) -> str:
        """Return an entry as a person writes it."""
        return f"`{entry}`"

    def entry_object(self, entry: str) -> Any:
        """Return an entry of an `always` as the answer of `policy check` holds it."""
        return entry

    def command_entry(self, command: str) -> str:
        """Return an entry for a command as it is written; a wildcard in it keeps its meaning."""
        return command

    def family_entry(self, pattern: str) -> str:
        """Return an entry for the commands that a wildcard matches; a ` *` at its end is optional in them."""
        return self.command_entry(pattern)

    def named(self, call: Call, texts: Sequence[str]) -> Iterator[NamedEntry]:
        """Yield the narrowest entries for texts of a call of another tool than the shell."""
        yield from (self.named_pattern(call.permission, text) for text in texts)

    def named_pattern(self, permission: str, text: str) -> NamedEntry:
        """Return the narrowest entry for one text of a permission."""
        return named_pattern(permission, text)

    def path_tool(self, tool: str) -> str:
        """Return the name of the tool in a rule for a path of this tool."""
        return tool

    def plain_pattern(self, pattern: str) -> str:
        """Return the pattern of a command rule as a wildcard of plain words."""
        return " ".join(pattern.split())

    def as_wildcard(self, rule: ListedRule) -> str:
        """Return the pattern of a rule for commands as a wildcard."""
        return rule.pattern

    def joins_conditions(self, pattern: str) -> bool:
        """Return whether a listed pattern stands for several conditions, which must all hold."""
        return False

    def names(self, wide: ListedRule, narrow: ListedRule) -> bool:
        """Return whether one rule names all tools of the other."""
        return wide.permission == narrow.permission

    def decides_before(self, first: ListedRule, second: ListedRule) -> bool | None:
        """Return whether the first of two matching rules decides; None if their actions and order do."""
        return None


class AnswerEffects(msgspec.Struct, frozen=True, kw_only=True):
    """The consequences of an answer.

    - `always_scope`: the scope of the grants of an `always`.
    - `cascade_reject`: other pending requests that a reject ends, in a session without that setting.
    - `rejected`: the message to the agent for a reject without feedback (`opencode-zh.md` 7.1).
    - `with_feedback`: the same with feedback, which stands for `{}`.
    """

    always_scope: Scope = "project"
    cascade_reject: CascadeReject = "session"
    rejected: str = REJECTED
    with_feedback: str = "The user rejected permission to use this specific tool call with the following feedback: {}"

    def extending(self, source: PolicySource) -> Extending:
        """Return whether people extend attended requests, in a session without that setting."""
        return "automatic"

    def corrected(self, message: str, source: PolicySource) -> str:
        """Return the message to the agent for a reject with feedback."""
        return self.with_feedback.replace("{}", message)

    def confirmation(self, call: Call, evaluation: Evaluation) -> dict[str, str]:
        """Return members that the program shows a person besides the request; `message` is the longest."""
        return {}


class MemoryFile(Protocol):
    """A file of the project to which an `always` is also written."""

    def file(self, source: PolicySource, folder: str | Path | None) -> Path | None:
        """Return the file; None if its folder is unknown."""

    def remember(self, file: Path, source: PolicySource, permission: str, entries: Sequence[str]) -> str | None:
        """Add the rules of granted entries to a file; return a message, or None if nothing was added.

        Raises PolicyError on failure; the file is then unchanged.
        """


class Dialect(ABC):
    """One dialect. Objects have no state."""

    name: ClassVar[str]
    language: ClassVar[Language] = Language()
    notation: ClassVar[Notation]
    answers: ClassVar[AnswerEffects] = AnswerEffects()
    memory: ClassVar[MemoryFile | None] = None

    # --- configuration
    @abstractmethod
    def compile(self, source: PolicySource) -> Policy:
        """Check a source and compile it. Raises PolicyError."""

    @abstractmethod
    def load(
        self, path: str | Path, *, name: str = DEFAULT_LAYER, strict: bool = True, content: bytes | None = None
    ) -> Layer:
        """Return one layer from a file in the dialect's own format. `content` is what was read from the file already.

        `strict=False` accepts rules that only the hardened profile refuses. Raises PolicyError with file and line.
        """

    def searched(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Path, ...]:
        """Return the files where the program looks for rules from the folder `project`, existing or not."""
        return tuple(Path(project, name) for name in self.language.rule_files)

    def find(self, project: str, environ: Mapping[str, str], *, home: str | None = None) -> tuple[Layer, ...]:
        """Return the layers that the program would find from the folder `project`, lowest first.

        Raises PolicyError for a file that exists and cannot be read.
        """
        return tuple(self.load(path) for path in self.searched(project, environ, home=home) if path.exists())

    def of_agent(self, source: PolicySource, agent: str | None) -> PolicySource:
        """Return the policy by which the calls of an agent are judged, where it has a section of its own."""
        return source

    # --- the rules of a sub-agent's session
    def child_of(self, parent: PolicySource, agent: str | None) -> PolicySource:
        """Return the configuration of a child that has none of its own."""
        return parent

    def child_options(self, options: dict[str, Any], parent: PolicySource) -> dict[str, Any]:
        """Return a child's options, no looser than its parent's; the profile is compared by the caller."""
        return options

    def inheriting(self, child: PolicySource, parent: PolicySource, lacking: tuple[Layer, ...]) -> PolicySource:
        """Return a child with the ask and deny rules of `lacking`, the layers that only its parent has."""
        return replace(child, layers=(*child.layers, *(replace(layer, trusted=False) for layer in lacking)))

    def without_parent(self, child: PolicySource) -> PolicySource:
        """Return a child that inherits no rules: its parent has none, or is unknown."""
        return child

    # --- calls and grants
    def known_tool(self, tool: str) -> str:
        """Return the name that the rules use for a tool: `Bash` must not evade the rules for `bash`."""
        lower = tool.lower()
        return lower if lower in _LOWER_CASE_TOOLS else tool

    def permission_of(self, tool: str) -> str:
        """Return the permission under which a tool's call is recorded and its grants are kept."""
        return tool

    @property
    def shell_permission(self) -> str:
        return self.permission_of(self.language.shell)

    def read_grant(self, value: Mapping[str, Any], grant_id: str) -> Grant | None:
        """Return a grant from its JSON shape; None for an entry that does not allow. Raises PolicyError."""
        rule = _rule_of(value)
        return Grant(grant_id, rule.permission, rule.pattern) if rule.action is Verdict.ALLOW else None

    def denials(self, grants: Sequence[Mapping[str, Any]]) -> tuple[Rule, ...]:
        """Return the entries among grants that do not allow, as rules behind all others. Raises PolicyError."""
        return tuple(rule for rule in map(_rule_of, grants) if rule.action is not Verdict.ALLOW)

    def grant_object(self, permission: str, entry: str) -> dict[str, Any]:
        """Return an entry of an `always` in the JSON shape that `read_grant` reads."""
        return {"permission": permission, "pattern": entry, "action": "allow"}


def _rule_of(value: Mapping[str, Any]) -> Rule:
    keys = ("grants",)
    return Rule(
        check_permission(value.get("permission"), NOWHERE, keys),
        check_pattern(value.get("pattern", "*"), NOWHERE, keys),
        check_action(value.get("action", "allow"), "the action of a grant", NOWHERE, keys),
    )
