"""guard() and policy(): a training that saves itself, as the program sees it. docs/guard.md

Under `memgauge run --guard POLICY` the policy of the command line holds, and guard() adds what only the program knows:
how a checkpoint is saved. In an observed process without one, guard() brings its own. Where nothing observes, both do
nothing, so that they can stay in the program."""
import json
import logging
import os
import subprocess
import sys
from importlib import import_module

from . import feed, marks
from ._agent.guard.hooks import CODE_STOPPED, GuardStop, Hooks

READ_POLICY = 20.0    # s for the command that reads one
MAX_TOLD = 200        # keys whose reading is told

log = logging.getLogger("memgauge")
_told = set()


class Settings:
    """What a policy offers the script, such as policy().training. Reads like a dict, and notes what was read: `memgauge
    run` says at the end which keys nothing has asked for, and a retry with a smaller batch needs that the script asks
    for training.batch_size."""

    def __init__(self, values, path=""):
        self._values, self._path = values, path

    def __getitem__(self, key):
        value = self._values[key]
        return self._take(key, value)

    def get(self, key, default=None):
        """With dots for what lies deeper: get("training.batch_size", 32)."""
        here = self
        for part in str(key).split("."):
            if not isinstance(here, Settings) or part not in here._values:
                return default
            here = here[part]
        return here

    def __getattr__(self, key):
        """A part that the policy lacks is empty: policy().training.get("batch_size", 32) works without a policy."""
        if key.startswith("_"):
            raise AttributeError(key)
        return self[key] if key in self._values else Settings({}, self._path + key + ".")

    def _take(self, key, value):
        path = self._path + key
        if isinstance(value, dict):
            return Settings(value, path + ".")
        if path not in _told and len(_told) < MAX_TOLD:
            _told.add(path)
            marks.event("policy", path)
            feed.observed()     # opens the ring: what was asked for must be known, however soon memory runs out
        return value

    def __contains__(self, key):
        return key in self._values

    def __iter__(self):
        return iter(self._values)

    def __len__(self):
        return len(self._values)

    def keys(self):
        return self._values.keys()

    def items(self):
        return [(key, self[key]) for key in self._values]

    def as_dict(self):
        """All of it; every key counts as read."""
        return {key: value.as_dict() if isinstance(value, Settings) else value for key, value in self.items()}

    def __repr__(self):
        return "Settings(%r)" % (self._values,)


def policy():
    """The settings of the policy under which this process runs, as `training` and `model` of a safe_training.yaml;
    empty without one."""
    try:
        return Settings(json.loads(os.environ.get("MEMGAUGE_POLICY") or "{}"))
    except ValueError:
        return Settings({})


class guard:
    """A context around the training loop:

        with memgauge.guard(checkpoint=save) as guard:
            for batch in loader:
                …
                if guard.should_stop:
                    break

    checkpoint: a function without arguments that saves one. It is called on the thread that trains, at the end of a
    step. Where the loop never reads should_stop, GuardStop (a SystemExit with code 75) ends it after that.
    policy: `guide`, the path of a YAML file, or a dict of the same shape; not used under `memgauge run --guard`.
    on_action: a function that gets a text for each thing that was done."""

    def __init__(self, policy="guide", checkpoint=None, on_action=None, dry_run=False):
        self._policy, self._dry_run = policy, dry_run
        self._hooks = Hooks()
        self._hooks.checkpoint, self._hooks.on_action, self._hooks.stop_with = checkpoint, on_action, GuardStop
        self._state, self._own, self._before = None, None, None

    def __enter__(self):
        state, loop = marks._agent()
        if state is None:
            log.warning("memgauge does not observe this process, so its guard does nothing: start it with "
                        "`memgauge run --guard guide -- python …`")
            return self
        self._state, self._before = state, state.guard_hooks
        state.guard_hooks = self._hooks
        if state.guard is not None:
            state.guard.hooks = self._hooks
        elif "MEMGAUGE_GUARD" not in os.environ:
            self._bring(state, loop.rpartition(".observe")[0])
        return self

    def _bring(self, state, agent):
        engine, policies = import_module(agent + ".guard.engine"), import_module(agent + ".guard.policy")
        told = policies.Policy(_read_policy(self._policy, self._dry_run))

        def make():
            try:
                engine.install(told)
            except Exception:
                state.error("guard")
        self._own = state.make_guard = make
        observer = state.observer
        if observer is not None and observer.ring is not None:
            make()
            observer.settings_changed()     # it has planned its next look without us

    def __exit__(self, *_):
        state, self._state = self._state, None
        if state is None:
            return
        state.guard_hooks = self._before
        if self._own is not None and state.make_guard is self._own:
            state.guard = state.make_guard = None
        elif state.guard is not None:
            engine = sys.modules[type(state.guard).__module__]
            state.guard.hooks = self._before or engine.Hooks()

    @property
    def should_stop(self):
        """Whether the loop should end: a checkpoint has been saved, if there is a function that does."""
        self._hooks.polled = True
        return self._hooks.asked_to_stop

    @property
    def actions(self):
        """Texts of what was done, the newest 100."""
        return list(self._state.guard.done) if self._state is not None and self._state.guard is not None else []


def _read_policy(policy, dry_run):
    """By the memgauge command, which says what is wrong with it: this package has no reader for YAML."""
    text = None
    if isinstance(policy, dict):
        policy, text = "-", json.dumps(policy).encode()
    command = ["memgauge", "guard", "--json"] + (["--dry-run"] if dry_run else []) + [os.fspath(policy)]
    done = subprocess.run(command, executable=feed.binary(), input=text or b"", stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=READ_POLICY)
    if done.returncode != 0:
        raise ValueError(done.stderr.decode("utf-8", "replace").strip())
    return json.loads(done.stdout.decode())


class Callbacks:
    """What a framework's callback needs of the guard: nothing is saved within an optimizer's step there, so requests
    wait until the batch has ended."""

    def __init__(self, name):
        self._name, self._state = name, None

    def begin(self, checkpoint=True):
        state, _ = marks._agent()
        if state is None or state.make_guard is None and state.guard is None:
            return
        if state.guard_hooks is None:
            state.guard_hooks = Hooks()
            if state.guard is not None:
                state.guard.hooks = state.guard_hooks
        if state.guard_hooks.checkpoint is None:        # the program's own comes first
            state.guard_hooks.framework, state.guard_hooks.checkpoint = self._name, checkpoint
            self._state = state

    def wanted(self):
        """The requests since the last call: checkpoint, stop."""
        state = self._state
        if state is None or state.guard_hooks is None:
            return []
        return [verb for verb, _ in state.guard_hooks.taken()]

    def stopped(self, why):
        """The training is about to end, its checkpoint is saved."""
        if self._state is not None:
            self._state.event("guard", "%s: stopped with a checkpoint: %s" % (self._name, why),
                              code=CODE_STOPPED)

    def end(self):
        state, self._state = self._state, None
        if state is not None:
            state.guard_hooks = None
            if state.guard is not None:
                state.guard.hooks = Hooks()
