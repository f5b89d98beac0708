"""Solutions whose derivative the user gives by an implicit rule: `custom_root` and `custom_linear_solve`.

In a trace both are equations of JAX's own; which function asked for them stands in their traceback.
"""

from __future__ import annotations

from typing import Any

from jax.extend import core as jex

from gradcheck_cli.frameworks.shared.equations import asked_in
from gradcheck_cli.reals.inner_jaxprs import inlined, is_jaxs_own

_LINEAR = "custom_linear_solve"
_ROOT = "custom_root"
_OPAQUE_ROOT = "CustomRoot"  # the class of what JAX wraps it up in from 0.11 on
SOLUTIONS = frozenset({_LINEAR, _ROOT})


def asking_file(eqn: Any) -> str:
    """The file whose function asked for this solution; nothing if the equation is none."""
    name = _name(eqn)
    return asked_in(eqn, (name,)) if name else ""


def asker(eqn: Any) -> str:
    """What asks for it, as the user's code calls it."""
    return _name(eqn)


def plain_solution(eqn: Any, values: list[Any]) -> tuple[Any, list[Any]]:
    """The solver that the user gave for it, and what it is called with: no rule is attached to that."""
    if eqn.primitive.name != _LINEAR:
        return inlined(eqn), values
    lengths = eqn.params["const_lengths"]
    start = lengths.matvec + lengths.vecmat
    constants = values[start : start + lengths.solve]
    return eqn.params["jaxprs"].solve, [*constants, *values[sum(lengths) :]]


def _name(eqn: Any) -> str:
    if eqn.primitive.name == _LINEAR:
        return _LINEAR
    if type(eqn.params.get("_prim")).__name__ == _OPAQUE_ROOT:
        return _ROOT
    body = eqn.params.get("call_jaxpr") if eqn.primitive.name == "custom_jvp_call" else None
    if not isinstance(body, jex.ClosedJaxpr) or not is_jaxs_own(body):
        return ""
    source = getattr(body.jaxpr.debug_info, "func_src_info", None) or ""
    return _ROOT if source.startswith(f"_{_ROOT} ") else ""
