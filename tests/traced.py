"""JAX functions as measurements: traced and walked over the reals; floats only where they are asked for."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.frameworks.jax.adopt import adopt, adopt_function, kind_of
from gradcheck_cli.frameworks.jax.gradient import JaxGradient
from gradcheck_cli.inputs.cotangents import BASE, OTHER, cotangent
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.inputs.signature import Fixed, Leaf, Signature
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.engine import measure_rows
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements, Probe, Rows
from gradcheck_cli.measure.sources import sources
from gradcheck_cli.subject.results import OP_BY_OP, Floats, Found, Place
from tests.conftest import FIXTURES

NAMES = ("x", "y", "z")


def ruled(function: Callable[..., Any], backward: Callable[..., Any]) -> Any:
    """The function with this for a rule: (inputs, cotangent) → gradients."""
    rule = jax.custom_vjp(function)
    rule.defvjp(lambda *args: (function(*args), args), backward)
    return rule


def gradient_of(function: Any) -> JaxGradient:
    """A custom gradient, or a plain function, as cgcheck finds it in a module."""
    if kind_of(function) is None:
        return adopt_function(function, "f", Place(__file__, 1, "f"), lambda path: False)
    gradient = adopt(Found(function, "custom_vjp", __file__, 1), lambda path: True)
    assert gradient is not None
    return gradient


def traced(
    function: Any,
    *columns: Any,
    names: Sequence[str] = NAMES,
    cotangents: Sequence[str] = (BASE, OTHER),
    dtype: str = "float32",
    fixed: Sequence[tuple[str, Fixed]] = (),
    ran: bool = False,
    kinks: bool = False,
    domain: Domain | None = None,
) -> Measurements:
    """Measurements at points, given by a column for each argument, with each of the cotangents.

    Without `ran` nothing is compiled, and all floats are 0; without `kinks` nothing is nudged.
    """
    fmt = format_of(dtype)
    leaves = [np.concatenate([fmt.round(column)] * len(cotangents)) for column in columns]
    arguments = [
        (n, Leaf(n, a.shape[1:], "test", domain=domain))
        for n, a in zip(names, leaves, strict=False)
    ]
    subject = gradient_of(function).fit(Signature((*arguments, *fixed)), dtype)
    count = len(leaves[0]) // len(cotangents)
    probes = [Probe(i, name) for name in cotangents for i in range(count)]
    each = [cotangent(name, subject.outputs) for name in cotangents]
    weights = [
        np.concatenate([np.repeat(weight[k][None], count, axis=0) for weight in each])
        for k in range(len(subject.outputs))
    ]
    recipes = ["by hand"] * len(probes)
    rows = Rows(subject, fmt, 0, probes, leaves, weights, recipes)
    values = [np.zeros(w.shape) for w in weights]
    gradients = [np.zeros(a.shape) for a in leaves]
    nothing = Floats(values, values, gradients if subject.has_rule else None, gradients)
    subject.traces()
    floats = subject.run(leaves, weights, (OP_BY_OP,)) if ran else {OP_BY_OP: nothing}
    return measure_rows(rows, sources(subject), kinks=kinks, floats=floats)


def failure(rule: RuleName, *, row: int = 0, what: str = GRADIENTS, **others: Any) -> Failure:
    """An error at one row, in the mode that runs op by op."""
    fields = {
        "component": 0,
        "ground": Ground(Kind.GRADIENT_FLOATS, "digits"),
        "message": "it is off",
        "modes": (OP_BY_OP,),
    }
    return Failure(rule=rule, severity=Severity.ERROR, row=row, what=what, **{**fields, **others})


@functools.cache
def fixture(name: str) -> ModuleType:
    """A file of fixtures, imported."""
    path = FIXTURES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bisected(a: Any) -> Any:
    """√a by halving of [0, 10]: autodiff through it gives zero."""

    def halves(i: Any, ends: Any) -> Any:
        low, high = ends
        middle = 0.5 * (low + high)
        below = middle * middle < a
        return jnp.where(below, middle, low), jnp.where(below, high, middle)

    low, high = jax.lax.fori_loop(0, 40, halves, (jnp.zeros_like(a), jnp.full_like(a, 10.0)))
    return 0.5 * (low + high)
