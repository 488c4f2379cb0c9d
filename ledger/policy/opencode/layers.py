"""One list of rules from the layers of an OpenCode policy (opencode-zh.md 9.3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from ledger.core.policy import Layer, Rule
from ledger.policy.checks import RuleOrigin, as_rules, origin_of, shown
from ledger.policy.config import PermissionSection, drop_allows, merge_sections, read_section, read_tools, section_rules
from ledger.policy.dialect import INHERITED
from ledger.policy.errors import PolicyError
from ledger.policy.jsonc import JsonKeys
from ledger.policy.limits import LAYER_COUNT, RULE_COUNT
from ledger.policy.opencode.builtin import agent_rules, default_rules, tool_output_rules
from ledger.policy.opencode.names import ACTION_ONLY
from ledger.policy.opencode.options import OpenCodeOptions

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


def check_layers(layers: Sequence[Layer]) -> None:
    """Raise PolicyError for more layers than a policy may have, and for one with a configuration and rules."""
    if len(layers) > LAYER_COUNT:
        raise PolicyError(f"the policy has {len(layers)} layers; at most {LAYER_COUNT} are accepted")
    for layer in layers:
        if layer.config is not None and layer.rules:
            raise origin_of(layer).problem("a layer holds either a configuration or rules, not both", ())


def check_count(count: int) -> None:
    """Raise PolicyError for more rules than a policy may have."""
    if count > RULE_COUNT:
        raise PolicyError(f"the policy has {count} rules; at most {RULE_COUNT} are accepted")


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
