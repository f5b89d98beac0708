"""What the linter's pages claim of formulas, proved: bad in float32, good when rewritten, equal over the reals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb
from jax.scipy import special

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.matching import pattern
from gradcheck_cli.lint.terms import Term
from gradcheck_cli.project.rule_pages import Proof, rules
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import build

TINY = float(np.finfo(np.float32).tiny)
GOOD, BAD = 2.0**-16, 2.0**-8  # relative errors
PROOFS = [(rule.name, proof) for rule in rules().values() for proof in rule.proof]
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "softplus": jax.nn.softplus,
    "sigmoid": jax.nn.sigmoid,
    "log_sigmoid": jax.nn.log_sigmoid,
    "ndtr": special.ndtr,
    "log_ndtr": special.log_ndtr,
    "erf": special.erf,
    "erfc": special.erfc,
    "gammaln": special.gammaln,
    "asinh": jnp.arcsinh,
}


def evaluated(term: Term, values: Mapping[str, Any]) -> Any:
    """The term as JAX computes it."""
    args = [evaluated(arg, values) for arg in term.args]
    match term.head:
        case terms.NUMBER:
            return jnp.asarray(term.value, next(iter(values.values())).dtype)
        case terms.NAME:
            return values[str(term.value)]
        case terms.SUM:
            return sum(args[1:], start=args[0])
        case terms.PRODUCT:
            whole = args[0]
            for arg in args[1:]:
                whole = whole * arg
            return whole
        case terms.POWER:
            return powered(args[0], float(term.args[1].number or 0))
        case head:
            return FUNCTIONS.get(head, getattr(jnp, head, None))(*args)


def powered(base: Any, to: float) -> Any:
    if to == 0.5:
        return jnp.sqrt(base)
    if to == -0.5:
        return 1 / jnp.sqrt(base)
    return base ** int(to) if to > 0 else 1 / base ** int(-to)


def function(text: str, names: list[str]) -> Callable[..., Any]:
    term = pattern(text)
    return lambda *args: evaluated(term, dict(zip(names, args, strict=True)))


def both(f: Callable[..., Any], point: Mapping[str, float]) -> list[Any]:
    """Value and derivative along all arguments in float32, one operation after the other."""
    args = tuple(jnp.float32(v) for v in point.values())
    return list(jax.jvp(f, args, tuple(map(jnp.ones_like, args))))


def truth(f: Callable[..., Any], point: Mapping[str, float]) -> list[arb]:
    """The same over the reals."""

    def along(*args: Any) -> Any:
        return jax.jvp(f, args, tuple(map(jnp.ones_like, args)))

    args = [np.array([np.float32(v)], np.float64) for v in point.values()]
    with jax.enable_x64(True):
        program = build(
            jax.make_jaxpr(along)(*(jax.ShapeDtypeStruct((), np.float64) for _ in args))
        )
    return [out[0] for out in enclose(program, args, goal=60).outs]


def error(float_: Any, real: arb) -> float:
    value = float(float_)
    if not np.isfinite(value):
        return float("inf")
    gap, size = abs(arb(value) - real), abs(real)
    if gap < TINY:  # floats below the normal ones are flushed
        return 0.0
    return float(gap.mid()) if size == 0 else float((gap / size).mid())


@pytest.mark.parametrize(("name", "proof"), PROOFS, ids=[f"{n}-{p.naive}" for n, p in PROOFS])
def test_it_fails_where_the_page_says_and_the_other_form_does_not(name: str, proof: Proof) -> None:
    names = list(proof.at)
    naive, stable = function(proof.naive, names), function(proof.stable, names)
    real = truth(stable, proof.at)
    wrong = [error(n, r) for n, r in zip(both(naive, proof.at), real, strict=True)]
    right = [error(n, r) for n, r in zip(both(stable, proof.at), real, strict=True)]
    assert wrong[1 if proof.gradient else 0] > BAD
    assert max(right[:1] if proof.value_only else right) < GOOD


@pytest.mark.parametrize(("name", "proof"), PROOFS, ids=[f"{n}-{p.naive}" for n, p in PROOFS])
def test_both_forms_are_equal_over_the_reals(name: str, proof: Proof) -> None:
    names = list(proof.at)
    naive, stable = function(proof.naive, names), function(proof.stable, names)
    for point in (proof.at, *proof.where):
        ordered = {n: point[n] for n in names}
        pairs = zip(truth(naive, ordered), truth(stable, ordered), strict=True)
        assert all(a.overlaps(b) for a, b in pairs)
