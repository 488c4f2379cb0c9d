"""The ledger's own files and commands, which the hardened profile keeps from the agents that it judges."""

from ledger.policy.own.guarding import GuardingPolicy, guarded

__all__ = ["GuardingPolicy", "guarded"]
