"""A jaxpr evaluated anew, equation by equation; what happens at each is passed in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core as jex

from gradcheck_cli.reals.inner_jaxprs import Unexpanded, wrapped_up

Equation = Callable[[Any, list[Any]], list[Any]]
Values = dict[Any, Any]  # of the variables that are known so far


def evaluate(
    closed: Any,
    args: Sequence[Any],
    equation: Equation,
    after: Callable[[int, Values], None] = lambda number, values: None,
) -> list[Any]:
    """The outputs, each equation's made by `equation` from itself and the values of its inputs.

    `after` hears the number of each equation that is done, and may change the values.
    """
    env: Values = dict(zip(closed.jaxpr.constvars, closed.consts, strict=True))
    env.update(zip(closed.jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Any:
        return atom.val if isinstance(atom, jex.Literal) else env[atom]

    for number, eqn in enumerate(closed.jaxpr.eqns):
        env.update(zip(eqn.outvars, equation(eqn, list(map(read, eqn.invars))), strict=True))
        after(number, env)
    return [read(atom) for atom in closed.jaxpr.outvars]


def bind(eqn: Any, values: list[Any], params: dict[str, Any] | None = None) -> list[Any]:
    """An equation as it is, perhaps with other parameters."""
    bound = eqn.primitive.get_bind_params(eqn.params if params is None else params)
    with eqn.ctx.manager:
        outs = eqn.primitive.bind(*values, **bound)
    return list(outs) if eqn.primitive.multiple_results else [outs]


def inner_jaxprs(eqn: Any) -> list[Any]:
    """All jaxprs among an equation's parameters, and that of what JAX has wrapped up as a whole, if it can be opened."""
    try:
        whole = wrapped_up(eqn)
    except Unexpanded:
        whole = None
    jaxprs = [] if whole is None else [whole.jaxpr]
    for value in eqn.params.values():
        for item in value if isinstance(value, (tuple, list)) else (value,):
            if isinstance(item, jex.ClosedJaxpr):
                jaxprs.append(item.jaxpr)
            elif isinstance(item, jex.Jaxpr):
                jaxprs.append(item)
    return jaxprs


def retraced(sub: Any, outputs: Callable[..., list[Any]]) -> Any:
    """A closed jaxpr of the same arguments, with other outputs for them."""
    avals = [
        jax.ShapeDtypeStruct(
            v.aval.shape, v.aval.dtype, weak_type=getattr(v.aval, "weak_type", False)
        )
        for v in sub.jaxpr.invars
    ]
    return jax.make_jaxpr(outputs)(*avals)


def asked_in(eqn: Any, names: Sequence[str]) -> str:
    """The file whose code called the function of one of these names that made the equation, if that is known."""
    frames = getattr(eqn.source_info.traceback, "frames", ())
    last = max((i for i, frame in enumerate(frames) if frame.function_name in names), default=None)
    outside = () if last is None else frames[last + 1 :]
    files = (f.file_name for f in outside if not f.file_name.endswith("traceback_util.py"))
    return next(files, "")
