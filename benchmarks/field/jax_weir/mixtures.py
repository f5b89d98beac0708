"""Phase equilibrium of liquid mixtures: activity coefficients, boiling points, flash."""
from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Mapping

import jax
import jax.numpy as jnp
from jax import lax

if TYPE_CHECKING:
    from jaxtyping import Array, Float

    Params = Mapping[str, Float[Array, "c c"]]


@dataclasses.dataclass(frozen=True)
class NRTL:
    """NRTL activity model with the extended temperature dependence.

    ``tau = a + b / T + e * log(T)`` and ``alpha = c + d * (T - t_ref)``, every parameter a matrix
    ``[c, c]``. None of them has to be symmetric; the diagonals of ``a``, ``b`` and ``e`` are zero.
    """

    t_ref: float = 273.15

    def binaries(self, temperature, params: Params):
        tau = params["a"] + params["b"] / temperature + params["e"] * jnp.log(temperature)
        alpha = params["c"] + params["d"] * (temperature - self.t_ref)
        return tau, alpha

    @staticmethod
    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def _log_gamma(
        self: NRTL, x: Float[Array, " c"], temperature: Float[Array, ""], params: Params
    ) -> Float[Array, " c"]:
        """Logarithm of the activity coefficients at mole fractions ``x``.

        Differentiable in the composition, the temperature [K] and the parameters (for regression
        of binary data).
        """
        tau, alpha = self.binaries(temperature, params)
        g = jnp.exp(-alpha * tau)
        s = x @ g
        r = (x @ (tau * g)) / s
        return r + (g * (tau - r) / s) @ x

    def _log_gamma_fwd(self, x, temperature, params):
        tau, alpha = self.binaries(temperature, params)
        g = jnp.exp(-alpha * tau)
        s = x @ g
        r = (x @ (tau * g)) / s
        w = g * (tau - r) / s
        return r + w @ x, (x, temperature, params, tau, alpha, g, s, r, w)

    def _log_gamma_bwd(self, res, ct):
        x, temperature, params, tau, alpha, g, s, r, w = res
        # second sum: sum_j x_j G_ij (tau_ij - r_j) / S_j
        outer = ct[:, None] * (x / s)
        g_bar = outer * (tau - r)
        tau_bar = outer * g
        r_bar = ct - jnp.sum(outer * g, axis=0)
        s_bar = -x * (ct @ w) / s
        x_bar = ct @ w
        # r = C / S
        c_bar = r_bar / s
        s_bar = s_bar - r_bar * r / s
        x_bar = x_bar + (tau * g) @ c_bar + g @ s_bar
        tau_bar = tau_bar + x[:, None] * c_bar * g
        g_bar = g_bar + x[:, None] * (c_bar * tau + s_bar)
        # G = exp(-alpha tau)
        tau_bar = tau_bar - alpha * g * g_bar
        alpha_bar = -tau * g * g_bar

        t_bar = jnp.sum(tau_bar * (params["e"] / temperature - params["b"] / temperature**2))
        params_bar = {
            "a": tau_bar,
            "b": tau_bar / temperature,
            "c": alpha_bar,
            "d": alpha_bar * (temperature - self.t_ref),
            "e": tau_bar * jnp.log(temperature),
        }
        return x_bar, t_bar, params_bar

    def log_gamma(self, x, temperature, params):
        """Activity coefficients (log) of one mixture, see ``_log_gamma``; ``jax.vmap`` over measurements."""
        return NRTL._log_gamma(self, x, temperature, params)

    def excess_gibbs(self, x, temperature, params):
        """g^E / RT."""
        return x @ self.log_gamma(x, temperature, params)


NRTL._log_gamma.defvjp(NRTL._log_gamma_fwd, NRTL._log_gamma_bwd)


# ---------------------------------------------------------------------------------------------


def _vapour_pressure(temperature, antoine, base):
    expo = antoine["A"] - antoine["B"] / (antoine["C"] + temperature[..., None])
    return jnp.exp(math.log(base) * expo)


def _bubble_solve(x, pressure, antoine, base):
    pure = antoine["B"] / (antoine["A"] - jnp.log(pressure)[..., None] / math.log(base)) - antoine["C"]
    temperature = jnp.sum(x * pure, axis=-1)

    def newton(_, t):
        p = _vapour_pressure(t, antoine, base)
        total = jnp.sum(x * p, axis=-1)
        slope = math.log(base) * jnp.sum(x * p * antoine["B"] / (antoine["C"] + t[..., None]) ** 2, axis=-1)
        return t - total * jnp.log(total / pressure) / slope

    return lax.fori_loop(0, 25, newton, temperature)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def bubble_temperature(
    x: Float[Array, "*batch c"],
    pressure: Float[Array, "*batch"],
    antoine: Mapping[str, Float[Array, " c"]],
    base: float = math.e,
) -> Float[Array, "*batch"]:
    """Bubble point of an ideal (Raoult) mixture.

    Finds T with ``sum_i x_i Psat_i(T) = pressure``, where ``Psat = base ** (A - B / (C + T))``.

    Args:
        x: liquid mole fractions, summing to one on the last axis.
        pressure: total pressure in the unit of the Antoine constants.
        antoine: constants ``{"A": ..., "B": ..., "C": ...}`` of each component.
        base: base of the Antoine equation. Most American tables are base 10, the default is e.
    """
    return _bubble_solve(x, pressure, antoine, base)


def _bubble_fwd(x, pressure, antoine, base):
    t = _bubble_solve(x, pressure, antoine, base)
    return t, (x, t, antoine)


def _bubble_bwd(base, res, ct):
    x, t, antoine = res
    p = _vapour_pressure(t, antoine, base)
    inv = 1.0 / (antoine["C"] + t[..., None])
    part = x * p
    dp_dt = part * antoine["B"] * inv**2
    lam = (ct / jnp.sum(dp_dt, axis=-1))[..., None]
    lead = tuple(range(x.ndim - 1))
    antoine_bar = {
        "A": -jnp.sum(lam * part, axis=lead),
        "B": jnp.sum(lam * part * inv, axis=lead),
        "C": -jnp.sum(lam * dp_dt, axis=lead),
    }
    return -lam * p, lam[..., 0], antoine_bar


bubble_temperature.defvjp(_bubble_fwd, _bubble_bwd)


# ---------------------------------------------------------------------------------------------


def _rr(v, z, k1):
    return jnp.sum(z * k1 / (1.0 + v[..., None] * k1), axis=-1)


@jax.custom_gradient
def rachford_rice(z: Float[Array, "*batch c"], k: Float[Array, "*batch c"]) -> Float[Array, "*batch"]:
    """Vapour fraction of an isothermal flash.

    Root in [0, 1] of ``sum_i z_i (K_i - 1) / (1 + V (K_i - 1))``. Feeds that are single phase give
    exactly 0 (subcooled liquid) or 1 (superheated vapour) and do not respond to ``z`` or ``k``; the
    same holds on the phase boundary itself. ``z`` is non-negative, ``k`` positive, of one shape.
    """
    k1 = k - 1.0
    zero = jnp.zeros(z.shape[:-1], z.dtype)
    one = zero + 1.0
    liquid = _rr(zero, z, k1) <= 0
    vapour = ~liquid & (_rr(one, z, k1) >= 0)
    two_phase = ~(liquid | vapour)

    def bisect(_, bracket):
        lo, hi = bracket
        mid = 0.5 * (lo + hi)
        right = _rr(mid, z, k1) > 0
        return jnp.where(right, mid, lo), jnp.where(right, hi, mid)

    lo, hi = lax.fori_loop(0, 60, bisect, (zero, one))
    v = jnp.where(liquid, 0.0, jnp.where(vapour, 1.0, 0.5 * (lo + hi)))

    def vjp(ct):
        den = 1.0 + v[..., None] * k1
        curvature = jnp.sum(z * (k1 / den) ** 2, axis=-1)
        lam = jnp.where(two_phase, ct / jnp.where(two_phase, curvature, 1.0), 0.0)[..., None]
        return lam * k1 / den, lam * z / den**2

    return v, vjp


def flash(z, k):
    """Vapour fraction and the two compositions."""
    v = rachford_rice(z, k)
    x = z / (1.0 + v[..., None] * (k - 1.0))
    return v, x, k * x
