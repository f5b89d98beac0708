"""From an object to a `JaxGradient`: which function it wraps, what it leaves undifferentiated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any

import jax

from gradcheck_cli.frameworks.jax.fit import fit
from gradcheck_cli.frameworks.jax.gradient import JaxGradient, of_function
from gradcheck_cli.frameworks.jax.hooks import is_custom_gradient, label, user_function
from gradcheck_cli.frameworks.shared.user_source import plain_functions
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.refusals import NO_GRAD_FUNCTION, RuleError
from gradcheck_cli.subject.results import Found, Place

_FILTER_VJP, _FILTER_JVP, _NNX_VJP = "filter_custom_vjp", "filter_custom_jvp", "CustomVjp"


def kind_of(thing: object) -> str | None:
    """The kind of custom gradient that this object is, if any."""
    if isinstance(thing, jax.custom_vjp):
        return "custom_gradient" if is_custom_gradient(thing) else "custom_vjp"
    if isinstance(thing, jax.custom_jvp):
        return "custom_jvp"
    name = type(thing).__name__
    module = type(thing).__module__.partition(".")[0]
    if module == "equinox" and name in (_FILTER_VJP, _FILTER_JVP):
        return name
    if module == "flax" and name == _NNX_VJP:
        return "nnx.custom_vjp"
    return None


def unwrapped(thing: object) -> object:
    """The custom gradient under `jit`, `functools.partial` and other wrappers, or the thing itself."""
    depth = 0
    while kind_of(thing) is None and depth < 8:
        inner = getattr(thing, "__wrapped__", None) or getattr(thing, "func", None)
        if inner is None:
            break
        thing, depth = inner, depth + 1
    return thing


def primal_of(thing: Any) -> Callable[..., Any]:
    """The function that the rule differentiates, as the user wrote it."""
    kind = kind_of(thing)
    if kind == "custom_gradient":
        user = user_function(thing)

        @functools.wraps(user)
        def primal(*args: Any, **kwargs: Any) -> Any:
            result = user(*args, **kwargs)
            if not (isinstance(result, (tuple, list)) and len(result) == 2 and callable(result[1])):
                raise RuleError("TypeError", NO_GRAD_FUNCTION, certain=True)
            return result[0]

        return primal
    if kind == _FILTER_VJP:
        return thing.fn  # type: ignore[no-any-return]
    if kind == _FILTER_JVP:
        inner = thing.fn.fun
        return inner.__closure__[inner.__code__.co_freevars.index("fn")].cell_contents  # type: ignore[no-any-return]
    return thing.fun  # type: ignore[no-any-return]


def adopt(recorded: Found, own: Own, bound: tuple[Any, ...] = ()) -> JaxGradient | None:
    """A recorded object as a custom gradient."""
    thing: Any = recorded.thing
    kind = kind_of(thing)
    if kind is None:
        return None
    label(thing)
    primal = primal_of(thing)
    place = place_of(primal, recorded)
    nondiff = tuple(getattr(thing, "nondiff_argnums", ()))
    return JaxGradient(
        name=place.qualname.rpartition(".")[2],
        kind=kind,
        place=place,
        rule=thing,
        primal=primal,
        own=own,
        fitter=fit,
        written=rule_code(thing),
        nondiff=frozenset(n for n in nondiff if isinstance(n, int)),
        only_first=kind == _FILTER_VJP,
        bound=bound,
    )


def adopt_function(function: Callable[..., Any], name: str, place: Place, own: Own) -> JaxGradient:
    """A plain function, with the rules that it is wrapped around."""
    return replace(of_function(function, name, place, own, fit), written=rule_code(function))


def place_of(function: Any, recorded: Found) -> Place:
    """Where the primal is defined; where the rule was made, if it has no source."""
    invented = str(recorded.extra.get("invented", ""))
    inner = inspect.unwrap(function)
    while isinstance(inner, functools.partial):
        inner = inspect.unwrap(inner.func)
    code = getattr(inner, "__code__", None)
    if code is None:
        return Place(
            recorded.path,
            recorded.line,
            f"<{recorded.kind}>",
            made=recorded.line,
            invented=invented,
        )
    qualname = getattr(inner, "__qualname__", code.co_name)
    made = recorded.line if recorded.path else 0
    return Place(code.co_filename, code.co_firstlineno, qualname, made=made, invented=invented)


def rule_code(rule: Any) -> tuple[FunctionType, ...]:
    """The functions that the user gave as the rule; what is jitted keeps its traces, and is left out."""
    functions = (f for f in _user_functions(unwrapped(rule)) if not hasattr(f, "lower"))
    return tuple(plain_functions(*functions))


def _user_functions(thing: Any) -> Sequence[Any]:
    kind = kind_of(thing)
    if kind == "custom_gradient":
        return [user_function(thing)]
    if kind == "custom_vjp":
        return [thing.bwd, thing.fwd]
    code = getattr(thing.jvp, "__code__", None) if kind == "custom_jvp" else None
    if code is None or "jvps" not in code.co_freevars:
        return [] if code is None else [thing.jvp]
    each: Sequence[Any] = thing.jvp.__closure__[code.co_freevars.index("jvps")].cell_contents
    return each  # of `defjvps`


def rule_is_missing(thing: Any) -> bool:
    """Decorated, but no derivative rule was ever given."""
    if isinstance(thing, jax.custom_jvp):
        return thing.jvp is None
    if isinstance(thing, jax.custom_vjp):
        return thing.fwd is None or thing.bwd is None
    return False
