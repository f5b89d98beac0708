"""What the linter's pages claim of formulas, proved: bad in float32, good when rewritten, equal over the reals."""

from __future__ import annotations

import itertools
import runpy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb

from gradcheck_cli.project.rule_pages import Proof, rules

Point = Mapping[str, float | list[float]]
TINY = float(np.finfo(np.float32).tiny)
_CONSTANTS = 1e-11
COOKBOOK = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "cookbook.py"))
function, both, truth = (COOKBOOK[name] for name in ("function", "both", "truth"))
GOOD, BAD = 2.0**-16, 2.0**-8  # relative errors
PROOFS = [(rule.name, proof) for rule in rules().values() for proof in rule.proof]


def error(floats: Any, reals: list[arb]) -> float:
    """The worst relative error of the elements; where there is no truth, none."""
    pairs = zip(np.ravel(np.asarray(floats)), reals, strict=True)
    return max(one_error(float(value), real) for value, real in pairs)


def one_error(value: float, real: arb) -> float:
    if not np.isfinite(value):
        return float("inf")
    gap, size = abs(arb(value) - real), abs(real)
    if gap < 2 * TINY:  # floats below the normal ones are flushed
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


def alike(a: arb, b: arb) -> bool:
    """Are they equal over the reals, but for what the library's own rules round their constants to?"""
    return bool(a.overlaps(b) or abs(a - b) < _CONSTANTS * abs(a))


@pytest.mark.parametrize(("name", "proof"), PROOFS, ids=[f"{n}-{p.naive}" for n, p in PROOFS])
def test_both_forms_are_equal_over_the_reals(name: str, proof: Proof) -> None:
    names = list(proof.at)
    naive, stable = function(proof.naive, names), function(proof.stable, names)
    for point in (proof.at, *proof.where):
        ordered = {n: point[n] for n in names}
        pairs = zip(truth(naive, ordered, 2), truth(stable, ordered, 2), strict=True)
        assert all(alike(a, b) for one, other in pairs for a, b in zip(one, other, strict=True))


SAFE = [
    (rule.name, proof) for rule in rules().values() for proof in rule.proof if proof.fix == "safe"
]
STRESS = (-1e4, -90.0, -17.0, -1.0, -1e-3, -1e-7, 1e-7, 1e-3, 0.7, 17.0, 90.0, 1e4)


@pytest.mark.parametrize(("name", "proof"), SAFE, ids=[f"{n}-{p.naive}" for n, p in SAFE])
def test_a_safe_fix_is_no_worse_anywhere(name: str, proof: Proof) -> None:
    """At each stress input, value and derivative are as good as before, or good beside their size nearby."""
    names = list(proof.at)
    naive, stable = function(proof.naive, names), function(proof.stable, names)
    compared = 0
    for point in stress(proof):
        reals = truth(stable, point)
        if not all(real.is_finite() for out in reals for real in out):
            continue
        compared += 1
        sizes = zip(
            *(truth(stable, nearby(point, t)) for t in (0.0625, 0.25, 0.5, 1, 2)), strict=True
        )
        outs = zip(both(naive, point), both(stable, point), reals, sizes, strict=True)
        for before, after, real, size in outs:
            if not is_good(after, real, size):
                assert error(after, real) <= 4 * error(before, real), point
    assert compared > 5


def nearby(point: Point, t: float) -> Point:
    return {name: (np.asarray(value) * t).tolist() for name, value in point.items()}


def is_good(floats: Any, reals: list[arb], sizes: Sequence[list[arb]]) -> bool:
    """Is it off by few ulp of the largest element nearby?"""
    largest = max(
        (abs(float(s.mid())) for size in sizes for s in size if s.is_finite()), default=0.0
    )
    pairs = zip(np.ravel(np.asarray(floats)), reals, strict=True)
    return all(abs(float(f) - float(r.mid())) <= GOOD * largest for f, r in pairs)


def stress(proof: Proof) -> list[Point]:
    """Numbers of all sizes for each name; vectors move as a whole."""
    ways = []
    for name, value in proof.at.items():
        base = np.asarray(value)
        ways.append([(name, (base + s).tolist() if base.ndim else s) for s in STRESS])
    return [dict(point) for point in itertools.product(*ways)][:: max(1, len(proof.at) ** 2)]
