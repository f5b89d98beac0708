"""Special functions in the meaning that JAX gives them, where flint's differ or lack a derivative.

Arguments outside a function's domain give nan; bounded functions stay inside their
bounds when nothing better is known (SEMANTICS C3).
"""

from __future__ import annotations

from collections.abc import Callable

from flint import acb, arb, ctx

NAN, ZERO, ONE, INF = arb("nan"), arb(0), arb(1), arb("inf")

# Points on the circle of Cauchy's formula: the error falls with (r/R) to this power.
_CIRCLE = 8
# Γ(σ)/|Γ(σ + iτ)| for σ ≥ ½ and |τ| ≤ ½ is at most √cosh(π/2).
_OFF_AXIS = arb(1.6)
# Above this, Q of a near x takes seconds: for a complex a at any precision, for a real one beyond some bits.
_MOST_A, _MOST_BITS = arb(10_000), 512
# Where x is below this part of a, P(a, x) comes from its own series.
_SMALL = arb(0.9)


def igamma(a: arb, x: arb) -> arb:
    """P(a, x), the regularized lower incomplete gamma function."""
    if not (a > 0 and x >= 0):
        return _edge(a, x, below=ZERO, beyond=ONE)
    if x == INF:
        return ONE
    lower = _series(a, x).real if x < a * _SMALL else ONE - _upper(a, x)
    if lower.rel_accuracy_bits() < ctx.prec // 2 and x < 1:
        lower = x.gamma_lower(a, regularized=1)
    return _within(lower)


def _series(a: arb | acb, x: arb) -> acb:
    """P(a, x) = xᵃe⁻ˣ/Γ(a + 1) · Σ xⁿ/((a + 1)…(a + n)), for Re a well above x."""
    a = acb(a)
    ratio = x / a.real  # bounds the quotient of two terms
    term = total = acb(1)
    n = 0
    least = arb(2) ** (-ctx.prec - 8)
    while not abs(term) < least:
        n += 1
        term = term * (x / (a + n))
        total += term
    tail = abs(term) * ratio / (ONE - ratio)
    total += acb(arb(0, tail.upper()), arb(0, tail.upper()))
    return (x.log() * a - x - (a + 1).lgamma()).exp() * total


def igammac(a: arb, x: arb) -> arb:
    """Q(a, x) = 1 − P(a, x)."""
    if not (a > 0 and x >= 0):
        return _edge(a, x, below=ONE, beyond=ZERO)
    return ZERO if x == INF else _within(_upper(a, x))


def _upper(a: arb, x: arb) -> arb:
    """Flint's Q; for a large a near x no more bits than it gives in milliseconds."""
    before = ctx.prec
    if a > _MOST_A and x < 4 * a:
        ctx.prec = min(before, _MOST_BITS)
    try:
        return x.gamma_upper(a, regularized=1)
    finally:
        ctx.prec = before


def _edge(a: arb, x: arb, *, below: arb, beyond: arb) -> arb:
    """At x = 0 the functions have values; outside a > 0, x ≥ 0 they have none."""
    if x.is_zero() and a > 0:
        return below
    if x == INF and a > 0:
        return beyond
    return NAN


def _within(value: arb) -> arb:
    """A probability, however wide the ball."""
    if value.is_finite() and value.rel_accuracy_bits() > 4:
        return value
    unit = ZERO.union(ONE)
    return unit if not value.is_finite() else _clamped(value, unit)


def _clamped(value: arb, unit: arb) -> arb:
    return value.intersection(unit) if value.overlaps(unit) else value


def igamma_grad_a(a: arb, x: arb) -> arb:
    """∂P(a, x)/∂a, by Cauchy's formula on a small circle with a proved error.

    P(a, x) = P(a + 1, x) + xᵃe⁻ˣ/Γ(a + 1) moves a to where P is bounded on a disc of radius ½.
    """
    if not (a > 0 and x > 0) or not x.is_finite():
        return ZERO if a > 0 and (x.is_zero() or x == INF) else NAN
    term = (a * x.log() - x - (a + 1).lgamma()).exp() * (x.log() - (a + 1).digamma())
    return term + _circle(a + 1, x)


def _circle(a: arb, x: arb) -> arb:
    """∂P(a, x)/∂a for a ≥ 1: (1/N) Σ P(a + rwᵏ, x)·w⁻ᵏ/r, off by at most (M/R)·ρᴺ/(1 − ρᴺ), ρ = r/R.

    M bounds P (or Q, whose derivative is the opposite) on the disc of radius R = ½.
    """
    small = bool(x < a * _SMALL)
    if not small and a > _MOST_A and x < 4 * a:
        return arb(0, (2 * _OFF_AXIS).upper())  # Cauchy's bound; more would take seconds a number
    before = ctx.prec
    bits = before // _CIRCLE + 4
    # Between series and asymptotics, flint's Q of a complex a cancels about 1.45·x bits.
    spare = 0 if small else int(1.5 * min(float(x), 2.0 * before))
    ctx.prec = before + 2 * bits + spare
    try:
        radius = arb(2) ** -(bits + 1)  # ρ = 2⁻ᵇⁱᵗˢ
        total = acb(0)
        for k in range(_CIRCLE):
            w = acb(arb(2 * k) / _CIRCLE).exp_pi_i()
            at = a + w * radius
            term = _series(at, x) if small else -acb(x).gamma_upper(at, regularized=1)
            total += term / w
        bound: arb = _largest(a, x, small) * _OFF_AXIS
        error = 4 * bound * arb(2) ** -(bits * _CIRCLE)
        value: arb = total.real / (_CIRCLE * radius) + arb(0, error.upper())
        return value if value.is_finite() else arb(0, (2 * bound).upper())  # Cauchy: at most M/R
    finally:
        ctx.prec = before


def _largest(a: arb, x: arb, small: bool) -> arb:
    """P falls with a, Q grows: the largest on the disc lies at one of its ends."""
    half = arb(0.5)
    return igamma(a - half, x) if small else igammac(a + half, x)


def random_gamma_grad(a: arb, x: arb) -> arb:
    """How a gamma sample x moves with its parameter: −(∂P/∂a)/(∂P/∂x)."""
    density = ((a - 1) * x.log() - x - a.lgamma()).exp()
    return -igamma_grad_a(a, x) / density


def incomplete_beta(a: arb, b: arb, x: arb) -> arb:
    """I_x(a, b), the regularized incomplete beta function."""
    if not (a > 0 and b > 0):
        return NAN
    if x.is_zero() or x == ONE:
        return x
    if not (x >= 0 and x <= 1):
        return NAN
    share = x.beta_lower(a, b, regularized=1)
    if not share.is_finite():  # near 1 flint loses it; the other tail is small, and easy there
        share = 1 - (1 - x).beta_lower(b, a, regularized=1)
    return _within(share)


def polygamma(m: arb, x: arb) -> arb:
    """The m-th derivative of digamma: (−1)ᵐ⁺¹·m!·ζ(m + 1, x), reflected below zero."""
    if m.is_zero():
        return x.digamma()
    order = m.unique_fmpz()
    if order is None or order < 0:
        return NAN
    n = int(order)
    sign = ONE if n % 2 else -ONE
    if x > 0:
        return sign * m.fac() * (m + 1).zeta(x)
    if x < 1:
        return -sign * polygamma(m, ONE - x) - arb.pi() * _cot_pi_derivative(n, x)
    return NAN


def _cot_pi_derivative(n: int, x: arb) -> arb:
    """dⁿ/dxⁿ cot(πx), as a polynomial in c = cot(πx): c′ = −π(1 + c²)."""
    c = x.cot_pi()
    coefficients = [ZERO, ONE]
    for _ in range(n):
        slope = [k * a for k, a in enumerate(coefficients)][1:]
        padded = [*slope, ZERO, ZERO]
        shifted = [ZERO, ZERO, *slope]
        coefficients = [-(a + b) for a, b in zip(padded, shifted, strict=True)]
    value = ZERO
    for a in reversed(coefficients):
        value = value * c + a
    return value * arb.pi() ** n


def zeta(s: arb, q: arb) -> arb:
    """Hurwitz zeta: Σ (q + k)⁻ˢ."""
    return s.zeta(q) if s > 1 else NAN


def bessel_i0e(x: arb) -> arb:
    """e^{−|x|}·I₀(x)."""
    return abs(x).bessel_i(0, scaled=True)


def bessel_i1e(x: arb) -> arb:
    """e^{−|x|}·I₁(x)."""
    if x >= 0:
        return x.bessel_i(1, scaled=True)
    if x < 0:
        return -((-x).bessel_i(1, scaled=True))
    return x.bessel_i(1) * (-abs(x)).exp()


def logaddexp(a: arb, b: arb) -> arb:
    """log(eᵃ + eᵇ), with −inf for nothing."""
    if a == -INF:
        return b
    if b == -INF:
        return a
    high, low = (a, b) if a >= b else (b, a)
    return high + (low - high).exp().log1p()


Many = Callable[..., arb]

# By the names of JAX's primitives, with as many arguments as they have.
SPECIAL: dict[str, Many] = {
    "bessel_i0e": bessel_i0e,
    "bessel_i1e": bessel_i1e,
    "igamma": igamma,
    "igamma_grad_a": igamma_grad_a,
    "igammac": igammac,
    "logaddexp": logaddexp,
    "polygamma": polygamma,
    "random_gamma_grad": random_gamma_grad,
    "regularized_incomplete_beta": incomplete_beta,
    "zeta": zeta,
}
