"""Protection of the ledger's own files and commands from the agents that it judges, for the hardened profile."""

from ledger.policy.own.ledger_access import LAYER, GuardingPolicy, guarded

__all__ = ["LAYER", "GuardingPolicy", "guarded"]
