"""Writes docs/do/cookbook.md, each proved pair of the rule pages with what both forms give: `python scripts/cookbook.py`.

A pair stands in the pattern language. JAX computes both forms in float32, one operation after the other, where the
page says that the naive one fails; the engine encloses the truth.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from flint import arb
from jax.scipy import special

from gradcheck_cli.lint import terms
from gradcheck_cli.lint.matching import pattern
from gradcheck_cli.lint.terms import Term
from gradcheck_cli.project.rule_pages import Proof, rules, sentence
from gradcheck_cli.reals.enclose import enclose
from gradcheck_cli.reals.program import build

PAGE = Path(__file__).resolve().parents[1] / "docs" / "do" / "cookbook.md"
Point = Mapping[str, float | list[float]]
_DIGITS = 6
_HEAD = """\
# A cookbook of stable forms

Each pair was tried: in float32, one operation after the other, at an input where the naive form fails. The truth is enclosed over the real
numbers. That both forms are equal there, and elsewhere, to the second derivative, is held by the tests. Where `cgcheck lint` finds a naive
form that is ticked, `--fix` writes the other in your framework's spelling. A pair without a tick is better where the naive form fails, and
not everywhere: near another input it may lose digits of its own.
"""
_FOOT = "*Made by `python scripts/cookbook.py`, from the pages of the linter's rules.*\n"


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
    "gt": jnp.greater,
    "logsumexp": special.logsumexp,
    "softmax": jax.nn.softmax,
    "log_softmax": jax.nn.log_softmax,
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
            to = term.args[1].number
            return jnp.power(*args) if to is None else powered(args[0], to)
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


def derived(f: Callable[..., Any], order: int) -> Callable[..., Any]:
    """Value and derivatives along one direction in all arguments, up to an order."""
    if order == 0:
        return lambda *args: (f(*args),)

    def along(*args: Any) -> Any:
        ways = tuple(
            jnp.linspace(1, 2, arg.size).reshape(arg.shape).astype(arg.dtype) for arg in args
        )
        outs, tangents = jax.jvp(derived(f, order - 1), args, ways)
        return (*outs, tangents[-1])

    return along


def both(f: Callable[..., Any], point: Point) -> list[Any]:
    """Value and derivative in float32, one operation after the other."""
    return list(derived(f, 1)(*(jnp.asarray(v, jnp.float32) for v in point.values())))


def truth(f: Callable[..., Any], point: Point, order: int = 1) -> list[list[arb]]:
    """The same over the reals, each out with its elements."""
    args = [np.asarray(v, np.float32).astype(np.float64) for v in point.values()]
    with jax.enable_x64(True):
        shapes = [jax.ShapeDtypeStruct(arg.shape, np.float64) for arg in args]
        program = build(jax.make_jaxpr(derived(f, order))(*shapes))
    outs = enclose(program, [arg[None] for arg in args], goal=60).outs
    return [list(np.ravel(out[0])) for out in outs]


def page() -> str:
    """The page as it is to stand."""
    lines = [_HEAD]
    for rule in rules().values():
        if rule.proof:
            lines += [f"## {sentence(rule.summary)[:-1]}", ""]
            lines += ["| instead of | write | at | the naive form gives | the other | truth |"]
            lines += ["|---|---|---|---|---|---|"]
            lines += [_row(proof) for proof in rule.proof]
            lines += ["", f"[{rule.name}](../../rules/{rule.family}/{rule.name}.md)", ""]
    return "\n".join([*lines, _FOOT])


def _row(proof: Proof) -> str:
    names = list(proof.at)
    which = 1 if proof.gradient else 0
    naive, stable = (
        _shown(both(function(form, names), proof.at)[which]) for form in (proof.naive, proof.stable)
    )
    reals = truth(function(proof.stable, names), proof.at)[which]
    at = ", ".join(f"{name} = {_point(value)}" for name, value in proof.at.items())
    what = f"{at} (slope)" if proof.gradient else at
    tick = " ✓" if proof.fix == "safe" else ""
    true = _shown([float(real.mid()) for real in reals])
    return f"| `{proof.naive}` | `{proof.stable}`{tick} | {what} | {naive} | {stable} | {true} |"


def _point(value: float | list[float]) -> str:
    return f"[{', '.join(f'{v:g}' for v in value)}]" if isinstance(value, list) else f"{value:.12g}"


def _shown(numbers: Any) -> str:
    """A number, or those of a vector."""
    flat = [f"{float(n):.{_DIGITS}g}" for n in np.ravel(np.asarray(numbers))]
    return flat[0] if len(flat) == 1 else f"[{', '.join(flat)}]"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
