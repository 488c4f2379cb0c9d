"""Protection of the ledger's own files and commands from the agents that it judges, for the hardened profile."""

from ledger.policy.own.ledger_access import GuardingPolicy, guarded

__all__ = ["GuardingPolicy", "guarded"]
