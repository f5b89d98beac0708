"""Evaluate a jaxpr anew with some of its custom rules bypassed, or step by step.

Each is one recursion over equations.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.extend import core as jex

from gradcheck_cli.frameworks.jax.kernels import kernels_in
from gradcheck_cli.frameworks.jax.places import own_lines
from gradcheck_cli.frameworks.jax.solves import SOLUTIONS, asker, asking_file, plain_solution
from gradcheck_cli.frameworks.shared.equations import bind, evaluate, inner_jaxprs, retraced
from gradcheck_cli.frameworks.shared.tracing import with_pullback
from gradcheck_cli.reals.facts import OPEN_LOOPS, Law, named
from gradcheck_cli.reals.inner_jaxprs import JAX_FOLDER, call_param, inlined
from gradcheck_cli.subject.protocol import Own
from gradcheck_cli.subject.results import Kernel
from gradcheck_cli.subject.user_code import calling_user_code

# A float loop that runs longer than this is taken to hang.
MOST_TRIPS = 100_000

_CUSTOM = ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr")
_CONTROL = named(lambda facts: facts.law is Law.CONTROL)


def pullback_jaxpr(
    fun: Callable[..., Any], avals: Sequence[Any], out_avals: Sequence[Any], rule: Any = None
) -> Any:
    """(leaves…, cotangents…) → (values, gradients); the backward pass of `rule` keeps its own lines."""
    with own_lines(rule), calling_user_code():
        return jax.make_jaxpr(with_pullback(fun, len(avals)))(*avals, *out_avals)


def is_zero(closed: Any, number: int) -> bool:
    """Is an output of a traced program zero by its text: a number, or a number that is spread?"""
    var = closed.jaxpr.outvars[number]
    made = next((eqn for eqn in closed.jaxpr.eqns if var in eqn.outvars), None)
    if made is not None and made.primitive.name in ("broadcast_in_dim", "convert_element_type"):
        var = made.invars[0]
    return bool(getattr(var, "val", None) is not None and not np.any(var.val))


def own_rules(fun: Callable[..., Any], own: Own, *avals: Any) -> tuple[str, ...]:
    """The names of the custom rules in the function that user code defines, each once."""
    return tuple(dict.fromkeys(_names(_traced(fun, avals)[0].jaxpr, own)))


def without_own_rules(fun: Callable[..., Any], own: Own, *avals: Any) -> Callable[..., Any]:
    """The function with every custom rule that user code defines replaced by its primal."""
    closed, tree = _traced(fun, avals)
    if not _has_own(closed.jaxpr, own):
        return fun
    bare = jax.make_jaxpr(lambda *args: _strip(closed, args, own))(*avals)

    def stripped(*args: Any) -> Any:
        flat = jax.tree_util.tree_leaves(args)
        return jax.tree_util.tree_unflatten(tree, jex.jaxpr_as_fun(bare)(*flat))

    return stripped


def stepwise(fun: Callable[..., Any], *avals: Any) -> Callable[..., Any]:
    """The function op by op inside one compile: a barrier after each equation."""
    closed, tree = _traced(fun, avals)

    def stepped(*args: Any) -> Any:
        flat = jax.tree_util.tree_leaves(args)
        return jax.tree_util.tree_unflatten(tree, _step(closed, flat))

    return stepped


def kernels_of(*programs: Any) -> tuple[Kernel, ...]:
    """The kernels that these traced programs call, each once."""
    each = (
        kernel for traced in programs if traced is not None for kernel in kernels_in(traced.jaxpr)
    )
    return tuple(dict.fromkeys(each))


def bounded(fun: Callable[..., Any], *avals: Any) -> Callable[..., Any]:
    """The function with its while loops cut off after many trips; what they carry is then NaN."""
    closed, tree = _traced(fun, avals)
    if not _has_open_loop(closed.jaxpr):
        return fun

    def cut(*args: Any) -> Any:
        flat = jax.tree_util.tree_leaves(args)
        return jax.tree_util.tree_unflatten(tree, _bound(closed, flat))

    return cut


def _traced(fun: Callable[..., Any], avals: Sequence[Any]) -> tuple[Any, Any]:
    """The function as a closed jaxpr, and the tree of its outputs."""
    with calling_user_code():
        closed, shape = jax.make_jaxpr(fun, return_shape=True)(*avals)
    return closed, jax.tree_util.tree_structure(shape)


def _has_open_loop(jaxpr: Any) -> bool:
    return any(
        eqn.primitive.name in OPEN_LOOPS or any(map(_has_open_loop, inner_jaxprs(eqn)))
        for eqn in jaxpr.eqns
    )


def _bound(closed: Any, args: Sequence[Any]) -> list[Any]:
    def equation(eqn: Any, values: list[Any]) -> list[Any]:
        if eqn.primitive.name in OPEN_LOOPS:
            return _cut_while(eqn, values)
        body = inlined(eqn)
        if body is not None and _has_open_loop(body.jaxpr):
            return _bound(body, values)
        return bind(eqn, values)

    return evaluate(closed, args, equation)


def _cut_while(eqn: Any, values: list[Any]) -> list[Any]:
    p = eqn.params
    a, b = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, state = values[:a], values[a : a + b], values[a + b :]

    def more(inner: Any) -> Any:
        return jex.jaxpr_as_fun(p["cond_jaxpr"])(*cond_consts, *inner)[0]

    def go(carry: Any) -> Any:
        trips, *inner = carry
        return jnp.any(more(inner)) & (trips < MOST_TRIPS)

    def body(carry: Any) -> Any:
        trips, *inner = carry
        new = jex.jaxpr_as_fun(p["body_jaxpr"])(*body_consts, *inner)
        each = more(inner)
        if each.ndim:  # a vector of loops: those that have ended keep their state
            new = [
                jnp.where(each.reshape(each.shape + (1,) * (b.ndim - each.ndim)), b, a)
                for a, b in zip(inner, new, strict=True)
            ]
        return (trips + 1, *new)

    trips, *final = lax.while_loop(go, body, (jnp.int32(0), *state))
    return [
        jnp.where(trips < MOST_TRIPS, x, jnp.nan) if jnp.issubdtype(x.dtype, jnp.floating) else x
        for x in final
    ]


def is_solution(names: Collection[str]) -> bool:
    """Is one of these rules an implicit one: of what solves something?"""
    return not SOLUTIONS.isdisjoint(names)


def _own(eqn: Any, own: Own) -> bool:
    """Does user code give this equation a rule: a custom one, or an implicit one?"""
    if eqn.primitive.name in _CUSTOM and own(_source(eqn)[1]):
        return True
    asked = asking_file(eqn)
    return bool(asked) and not asked.startswith(JAX_FOLDER) and own(asked)


def _source(eqn: Any) -> tuple[str, str]:
    """The name of the function whose custom rule the equation calls, and its file."""
    body = eqn.params[call_param(eqn.primitive.name)]
    info = getattr(body.jaxpr, "debug_info", None)
    name, _, place = (getattr(info, "func_src_info", "") or "").rpartition(" at ")
    return name, place.rpartition(":")[0]


def _names(jaxpr: Any, own: Own) -> Iterator[str]:
    for eqn in jaxpr.eqns:
        if _own(eqn, own):
            yield asker(eqn) or _source(eqn)[0]
        for sub in inner_jaxprs(eqn):
            yield from _names(sub, own)


def _has_own(jaxpr: Any, own: Own) -> bool:
    return any(
        _own(eqn, own) or any(_has_own(sub, own) for sub in inner_jaxprs(eqn)) for eqn in jaxpr.eqns
    )


def _strip(closed: Any, args: Sequence[Any], own: Own) -> list[Any]:
    def equation(eqn: Any, values: list[Any]) -> list[Any]:
        if _own(eqn, own):
            return _strip(*plain_solution(eqn, values), own)
        if not any(_has_own(sub, own) for sub in inner_jaxprs(eqn)):
            return bind(eqn, values)
        if eqn.primitive.name in _CONTROL:
            return bind(eqn, values, _stripped_params(eqn, own))
        body = inlined(eqn)
        return bind(eqn, values) if body is None else _strip(body, values, own)

    return evaluate(closed, args, equation)


def _stripped_params(eqn: Any, own: Own) -> dict[str, Any]:
    def clean(sub: Any) -> Any:
        if type(sub) is tuple:  # of branches
            return tuple(map(clean, sub))
        if not isinstance(sub, jex.ClosedJaxpr) or not _has_own(sub.jaxpr, own):
            return sub
        return retraced(sub, lambda *args: _strip(sub, args, own))

    return {key: clean(value) for key, value in eqn.params.items()}


def _step(closed: Any, args: Sequence[Any]) -> list[Any]:
    def equation(eqn: Any, values: list[Any]) -> list[Any]:
        body = inlined(eqn)
        if body is not None:
            return _step(body, values)
        return list(lax.optimization_barrier(tuple(bind(eqn, values))))

    return evaluate(closed, args, equation)
