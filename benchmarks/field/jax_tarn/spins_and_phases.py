"""Mean-field magnetism, phase oscillators and ionisation equilibrium."""

from __future__ import annotations

import dataclasses
import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


@dataclasses.dataclass(eq=False)
class PhaseNetwork:
    """Directed network of phase oscillators (Sakaguchi-Kuramoto).

    Attributes:
        src: Integer array ``(E,)``, the oscillator from which each edge starts.
        dst: Integer array ``(E,)``, the oscillator that each edge drives.  Edges are
            directed; parallel edges and self loops are permitted and simply add up.
        num_nodes: Number of oscillators.
        lag: Constant phase lag, in radians.
    """

    src: np.ndarray
    dst: np.ndarray
    num_nodes: int
    lag: float = 0.0

    def euler(self, theta, omega, weight, dt=0.05, steps=10):
        """Explicit Euler from ``theta``; returns the final phases."""

        def body(th, _):
            return th + dt * (omega + phase_coupling(self, th, weight)), None

        return jax.lax.scan(body, theta, None, length=steps)[0]


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def phase_coupling(net: PhaseNetwork, theta: jax.Array, weight: jax.Array) -> jax.Array:
    """Torque on each oscillator of a network.

    Args:
        net: The (static) network.
        theta: Phases ``(..., num_nodes)``.
        weight: Coupling strength of each edge ``(E,)``, of any sign.

    Returns:
        ``(..., num_nodes)`` with ``sum_e w_e sin(theta[src] - theta[dst] - lag)`` over the
        edges that end in the node.
    """
    pull = weight * jnp.sin(theta[..., net.src] - theta[..., net.dst] - net.lag)
    return jnp.zeros_like(theta).at[..., net.dst].add(pull)


def _coupling_fwd(net, theta, weight):
    diff = theta[..., net.src] - theta[..., net.dst] - net.lag
    out = jnp.zeros_like(theta).at[..., net.dst].add(weight * jnp.sin(diff))
    return out, (diff, weight)


def _coupling_bwd(net, res, g):
    diff, weight = res
    g_edge = g[..., net.dst]
    flow = g_edge * weight * jnp.cos(diff)
    g_theta = jnp.zeros_like(g).at[..., net.src].add(flow).at[..., net.dst].add(-flow)
    g_weight = g_edge * jnp.sin(diff)
    return g_theta, g_weight.reshape(-1, weight.shape[0]).sum(0)


phase_coupling.defvjp(_coupling_fwd, _coupling_bwd)


_SERIES_BELOW = 0.3


def _brillouin_constants(spin: float):
    a = (2.0 * spin + 1.0) / (2.0 * spin)
    b = 1.0 / (2.0 * spin)
    return a, b, (a**2 - b**2) / 3.0, (a**4 - b**4) / 45.0, 2.0 * (a**6 - b**6) / 945.0


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def brillouin(x: jax.Array, spin: float = 0.5) -> jax.Array:
    """Brillouin function ``B_J(x)``.

    ``B_J(x) = a coth(a x) - b coth(b x)``, ``a = (2J+1)/2J``, ``b = 1/2J``.

    Args:
        x: Reduced field ``g mu_B J B / k T``, any real value, any shape.
        spin: Total angular momentum ``J``, a positive half-integer or integer.

    Returns:
        Relative magnetisation in ``(-1, 1)``, the shape of ``x``.

    Note:
        The two ``coth`` poles cancel at the origin.  Below ``|x| = 0.3`` a Taylor
        polynomial of degree five replaces the difference, for the value and for the
        susceptibility.
    """
    a, b, c1, c3, c5 = _brillouin_constants(spin)
    small = jnp.abs(x) < _SERIES_BELOW
    xs = jnp.where(small, 1.0, x)
    x2 = x * x
    series = x * (c1 - x2 * (c3 - x2 * c5))
    return jnp.where(small, series, a / jnp.tanh(a * xs) - b / jnp.tanh(b * xs))


def _csch2(z):
    """1 / sinh(z)**2 without overflow."""
    e = jnp.exp(-2.0 * jnp.abs(z))
    return 4.0 * e / (1.0 - e) ** 2


@brillouin.defjvp
def _brillouin_jvp(spin, primals, tangents):
    (x,), (dx,) = primals, tangents
    a, b, c1, c3, c5 = _brillouin_constants(spin)
    small = jnp.abs(x) < _SERIES_BELOW
    xs = jnp.where(small, 1.0, x)
    x2 = x * x
    slope_series = c1 - x2 * (c3 - 5.0 * x2 * c5)
    slope = b**2 * _csch2(b * xs) - a**2 * _csch2(a * xs)
    return brillouin(x, spin), jnp.where(small, slope_series, slope) * dx


# (2 pi m_e / h^2)^{3/2} in m^-3 eV^-3/2
_LOG_THERMAL = math.log(3.0187e27)


def _log_saha(kt, log_n, chi, log_g):
    return _LOG_THERMAL + log_g + 1.5 * jnp.log(kt) - log_n - chi / kt


def _fraction(log_s):
    """Positive root of x**2 / (1 - x) = exp(log_s)."""
    big = log_s > 0.0
    r = jnp.exp(-jnp.abs(log_s))
    # s > 1: 2 / (1 + sqrt(1 + 4/s));   s <= 1: the same divided through by 1/sqrt(s)
    q = jnp.sqrt(r)
    return jnp.where(big, 2.0 / (1.0 + jnp.sqrt(1.0 + 4.0 * r)), 2.0 * q / (q + jnp.sqrt(r + 4.0)))


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def saha_ionization(
    kt: jax.Array, log_n: jax.Array, chi: jax.Array, log_g: float = 0.0
) -> jax.Array:
    """Ionised fraction of a one-level gas from the Saha equation.

    Args:
        kt: Temperature ``k T`` in eV, positive.
        log_n: Natural log of the total number density in 1/m^3.
        chi: Ionisation energy in eV.
        log_g: Log of the ratio of statistical weights ``2 g_1 / g_0`` (0 for hydrogen).

    Returns:
        Fraction ``x`` with ``x^2 / (1 - x) = S``.  The three array arguments broadcast.

    Note:
        The tangent uses ``dx / d ln S = x (1 - x) / (2 - x)``, the derivative of the
        defining equation, and needs neither branch of the root formula.
    """
    return _fraction(_log_saha(kt, log_n, chi, log_g))


@saha_ionization.defjvp
def _saha_jvp(log_g, primals, tangents):
    kt, log_n, chi = primals
    dkt, dn, dchi = tangents
    x = _fraction(_log_saha(kt, log_n, chi, log_g))
    dlog_s = (1.5 + chi / kt) / kt * dkt - dn - dchi / kt
    return x, x * (1.0 - x) / (2.0 - x) * dlog_s
