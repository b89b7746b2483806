"""Units of a server's work, found by hooks in the libraries that serve (loop.py counts them):

- uvicorn, which runs Starlette, FastAPI and most model servers: a response that is complete is a request.
- vLLM's engine core: a step that executed the model, and the tokens that it made.
- transformers: a call of generate(), and the tokens that it made.

Of these the most explicit one counts in a process: requests, then an engine's steps, then calls of generate(). The
tokens count beside each of them. Nothing of ours stands around a request: uvicorn calls us when it is over. The others
take milliseconds, and are noticed by their code objects (around.py), also by who has bound the method already.
A hook that does not find what it expects does nothing, and an event `hooks` says so.
"""
import sys
from types import FunctionType

from .. import state, torchhook
from . import loop
from .around import Noticed
from .hooks import Dynamo

_off = []        # what takes our hooks off


def found(module):
    """A module has been imported that we hook into."""
    name = module.__name__
    try:
        lacks = _HOOKS[name](module)
    except Exception as e:
        lacks = "%s: %s" % (type(e).__name__, e)
    if lacks:
        state.event("hooks", "%s is not the one that is known (%s): its work is not counted; memgauge.unit() counts it"
                    % (name, lacks))


def uninstall():
    while _off:
        try:
            _off.pop()()
        except Exception:
            state.error("hooks")


def _beat(source, what, tokens=None):
    try:
        if tokens and state.current is not None and not loop.by_hand():
            state.tokens.append(int(tokens))
        loop.beat(source, what, what)
    except Exception:
        state.error(what)
        uninstall()


# --- uvicorn ----------------------------------------------------------------------------------------------------------

def _uvicorn(module):
    owners = [value for value in vars(module).values() if isinstance(value, type)
              and isinstance(value.__dict__.get("on_response_complete"), FunctionType)]
    for owner in owners:
        _count_responses(owner)
    if not owners:
        return "no on_response_complete()"


def _count_responses(owner):
    original = owner.on_response_complete

    def on_response_complete(self, *args):
        _beat(loop.REQUEST, "requests of uvicorn")
        return original(self, *args)

    def off():
        if owner.__dict__.get("on_response_complete") is on_response_complete:
            owner.on_response_complete = original

    on_response_complete.__wrapped__ = original
    owner.on_response_complete = on_response_complete
    _off.append(off)


# --- vLLM -------------------------------------------------------------------------------------------------------------

def _vllm(module):
    owner = getattr(module, "EngineCore", None)
    if not all(_notice(owner, name, _engine_step) for name in ("step", "step_with_batch_queue")):
        return "no EngineCore.step()"


def _engine_step(plain, args, kwargs):
    result = plain(*args, **kwargs)
    try:
        outputs, executed = result
        if executed:
            made = sum(len(one.new_token_ids) for of in (outputs or {}).values() for one in of.outputs)
            _beat(loop.ENGINE, "steps of vLLM's engine", made)
    except Exception:
        state.error("steps of vLLM's engine")
        uninstall()
    return result


# --- transformers -----------------------------------------------------------------------------------------------------

def _transformers(module):
    if not _notice(getattr(module, "GenerationMixin", None), "generate", _generate):
        return "no GenerationMixin.generate()"


def _generate(plain, args, kwargs):
    result = plain(*args, **kwargs)
    try:
        _beat(loop.INFER, "calls of generate() of transformers", _made(result, args, kwargs))
    except Exception:
        state.error("calls of generate()")
        uninstall()
    return result


def _made(result, args, kwargs):
    """How many tokens were made: those of a decoder alone follow the prompt's. None where it isn't known."""
    shape = getattr(getattr(result, "sequences", result), "shape", None)
    if shape is None or len(shape) != 2:
        return None
    prompt = kwargs.get("inputs", kwargs.get("input_ids", args[1] if len(args) > 1 else None))
    before = getattr(prompt, "shape", (0, 0))
    if len(before) != 2 or getattr(getattr(args[0] if args else None, "config", None), "is_encoder_decoder", False):
        before = (0, 0)
    return max(0, shape[0] * (shape[1] - before[1]))


def _notice(owner, name, around):
    """Whether calls of a method go through around() from now on."""
    function = getattr(owner, "__dict__", {}).get(name)
    torch = torchhook.loaded("torch")
    if not isinstance(function, FunctionType) or torch is None:
        return False
    dynamo = Dynamo(torch)

    class Plain:    # what the method calls is compiled as it was
        compiling = dynamo.compiling

        @staticmethod
        def skip(through):
            return dynamo.skip(through, nested=False)

    _off.append(Noticed(function, owner.__name__, name, around, Plain).off)
    return True


_HOOKS = {
    "uvicorn.protocols.http.h11_impl": _uvicorn,
    "uvicorn.protocols.http.httptools_impl": _uvicorn,
    "vllm.v1.engine.core": _vllm,
    "transformers.generation.utils": _transformers,
}
