"""The policy as `memgauge run --guard` hands it over in the environment: JSON that Go has checked
(internal/judge/guard)."""
import json
import os

VARIABLE = "MEMGAUGE_GUARD"
FLOOR = 0.8       # of a limit: below it nothing of the program's is touched (internal/judge/guard, defaultFloor)


class Rule:
    """See internal/judge/guard.Rule."""

    __slots__ = ("name", "kind", "memory", "bytes", "share", "steps", "within", "again", "do",
                 "held", "acted", "level", "waited", "pending")

    def __init__(self, told):
        self.name, self.kind = told["name"], told["kind"]
        self.memory = told.get("memory", "")
        self.bytes, self.share = told.get("bytes", 0), told.get("share", 0.0)
        self.steps, self.within, self.again = told.get("steps", 0), told.get("within", 0.0), told["again"]
        self.do = [tuple(action) for action in told["do"]]
        self.held = False          # its condition, at the last look
        self.acted = None          # when it acted last, s
        self.level = 0             # bytes, after that
        self.pending = ()          # numbers of the actions that could not be done yet
        self.waited = 0            # looks that they have been waited for


class Policy:
    def __init__(self, told):
        self.name, self.every, self.dry_run = told["name"], told["every"], told["dry_run"]
        self.rules = [Rule(rule) for rule in told["rules"]]
        self.clear, self.cap = told["clear"], [(c["list"], c["length"]) for c in told["cap"]]
        self.checkpoint, self.floor = told["checkpoint"], told.get("floor", FLOOR)


def from_environment():
    """The Policy, or None."""
    text = os.environ.get(VARIABLE)
    return Policy(json.loads(text)) if text else None
