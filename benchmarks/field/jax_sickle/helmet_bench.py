"""Head-impact measures of the helmet test bench, differentiable.

The lining of a helmet is optimised against drop-tower records: a lumped head
form is dropped on an anvil, the simulated acceleration passes the channel
class filter prescribed for the instrument, and injury criteria are formed
from the filtered traces. Everything here works on batches of drops and is
called from ``optimise_liner``.

Units: g for acceleration, seconds, rad/s, MPa.
"""
import functools
import math
from typing import NamedTuple, Tuple

import jax
import jax.numpy as jnp
from jax import lax

G0 = 9.80665

# Longest window of the head injury criterion in seconds.
HIC_WINDOW = 0.015
HIC_EXPONENT = 2.5

# Critical angular velocities about x, y, z (rad/s).
CRITICAL_RATES = (66.25, 56.45, 42.87)

# A crushed liner cell is taken as solid beyond this strain.
SOLID_STRAIN = 0.98


class FoamLiner(NamedTuple):
    """Expanded polystyrene, per layer or scalar."""
    modulus: jax.Array
    plateau: jax.Array
    densify: jax.Array
    stiffening: jax.Array


class DropRecord(NamedTuple):
    linear: jax.Array    # drops x 3 x samples, g
    angular: jax.Array   # drops x 3 x samples, rad/s


def resultant(linear):
    return jnp.sqrt(jnp.sum(linear ** 2, axis=1) + 1e-12)


# --------------------------------------------------------------------------- filter

def channel_class(cfc: float, dt: float) -> Tuple[float, ...]:
    """Two-pole low-pass coefficients (a0, a1, a2, b1, b2) of a channel class."""
    wd = 2.0 * math.pi * cfc * 2.0775
    wa = math.tan(wd * dt / 2.0)
    norm = 1.0 + math.sqrt(2.0) * wa + wa * wa
    a0 = wa * wa / norm
    return (a0, 2.0 * a0, a0,
            -2.0 * (wa * wa - 1.0) / norm,
            (-1.0 + math.sqrt(2.0) * wa - wa * wa) / norm)


def _one_pass(trace, coefficients, primed):
    a0, a1, a2, b1, b2 = coefficients
    x = jnp.moveaxis(trace, -1, 0)
    first = x[0] if primed else jnp.zeros_like(x[0])

    def tick(state, now):
        x1, x2, y1, y2 = state
        y = a0 * now + a1 * x1 + a2 * x2 + b1 * y1 + b2 * y2
        return (now, x1, y, y1), y

    _, y = lax.scan(tick, (first,) * 4, x)
    return jnp.moveaxis(y, 0, -1)


def _both_ways(trace, coefficients, primed):
    forward = _one_pass(trace, coefficients, primed)
    return _one_pass(forward[..., ::-1], coefficients, primed)[..., ::-1]


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def channel_class_filter(trace, coefficients, primed=False):
    """Phaseless four-pole filter along the last axis.

    The two-pole section runs forwards and then backwards over the record.
    With `primed` the section starts each pass as though its first reading had
    lasted for ever, for records cut so tightly that they do not begin and end
    at rest; otherwise it starts from zero.
    """
    return _both_ways(trace, coefficients, primed)


def _filter_fwd(trace, coefficients, primed):
    return _both_ways(trace, coefficients, primed), None


def _filter_bwd(coefficients, primed, _, g):
    # Forward and backward passes are transposes of one another, so the pair
    # is symmetric.
    return (_both_ways(g, coefficients, False),)


channel_class_filter.defvjp(_filter_fwd, _filter_bwd)


# --------------------------------------------------------------------------- criteria

class HicMeter:
    """Head injury criterion of resultant traces.

    For every drop the window [i, i + k] with the largest

        (mean acceleration) ** 2.5 * duration

    is sought over all starts and over durations of at most `longest` sampling
    intervals; integrals by the trapezoid rule.
    """

    def __init__(self, longest: int):
        self.longest = longest
        self.hic = self._build()

    @classmethod
    def for_rate(cls, sample_rate: float):
        return cls(int(round(HIC_WINDOW * sample_rate)))

    def __call__(self, trace, dt):
        return self.hic(trace, dt)

    def _build(self):
        longest = self.longest

        def windows(trace):
            """Trapezoid sums, [drops, durations, starts], in sample units."""
            samples = trace.shape[1]
            pair = 0.5 * (trace[:, 1:] + trace[:, :-1])
            run = jnp.pad(jnp.cumsum(pair, axis=1), ((0, 0), (1, 0)))
            rows = []
            for k in range(1, min(longest, samples - 1) + 1):
                area = run[:, k:] - run[:, :-k]
                rows.append(jnp.pad(area, ((0, 0), (0, k))))
            return jnp.maximum(jnp.stack(rows, axis=1), 0.0)

        def best(trace):
            area = windows(trace)
            length = jnp.arange(1, area.shape[1] + 1, dtype=trace.dtype)
            score = area ** HIC_EXPONENT * length[:, None] ** (1.0 - HIC_EXPONENT)
            flat = score.reshape(score.shape[0], -1)
            at = jnp.argmax(flat, axis=1)
            k, start = at // area.shape[2] + 1, at % area.shape[2]
            peak = jnp.take_along_axis(flat, at[:, None], axis=1)[:, 0]
            return peak, k, start, area.reshape(flat.shape)[jnp.arange(flat.shape[0]), at]

        @jax.custom_vjp
        def hic(trace, dt):
            """trace: drops x samples, dt: sampling interval."""
            return best(trace)[0] * dt

        def fwd(trace, dt):
            peak, k, start, area = best(trace)
            return peak * dt, (peak, k, start, area, dt, jnp.zeros((0, trace.shape[1]), trace.dtype))

        def bwd(res, g):
            peak, k, start, area, dt, like = res
            index = jnp.arange(like.shape[1])[None, :]
            lo, hi = start[:, None], (start + k)[:, None]
            inside = ((index >= lo) & (index <= hi)).astype(like.dtype)
            edge = ((index == lo) | (index == hi)).astype(like.dtype)
            weight = inside - 0.5 * edge
            length = k.astype(like.dtype)
            slope = HIC_EXPONENT * (area / length) ** (HIC_EXPONENT - 1.0)
            return (g * slope * dt)[:, None] * weight, jnp.sum(g * peak)

        hic.defvjp(fwd, bwd)
        return hic


@jax.custom_vjp
def brain_injury_criterion(rates, critical):
    """Rotational criterion from peak angular velocities.

    Args:
        rates: angular velocity traces, (drops, 3, samples).
        critical: critical velocities of the three axes, (3,).

    Returns:
        (drops,) root sum of squares of the peak-to-critical ratios.
    """
    peak = jnp.max(jnp.abs(rates), axis=2)
    return jnp.sqrt(jnp.sum((peak / critical) ** 2, axis=1))


def _bric_fwd(rates, critical):
    size = jnp.abs(rates)
    at = jnp.argmax(size, axis=2)
    peak = jnp.take_along_axis(rates, at[:, :, None], axis=2)[:, :, 0]
    value = jnp.sqrt(jnp.sum((peak / critical) ** 2, axis=1))
    return value, (peak, at, value, critical, jnp.arange(rates.shape[2]))


def _bric_bwd(res, g):
    peak, at, value, critical, clock = res
    safe = jnp.where(value > 0, value, 1.0)
    scale = (g / safe)[:, None] * peak / critical ** 2
    hit = clock[None, None, :] == at[:, :, None]
    d_rates = jnp.where(hit, scale[:, :, None], 0.0)
    d_critical = -jnp.mean(scale * peak / critical, axis=0)
    return d_rates, d_critical


brain_injury_criterion.defvjp(_bric_fwd, _bric_bwd)


# --------------------------------------------------------------------------- liner

def _foam_state(strain, foam):
    inside = strain < SOLID_STRAIN
    e = jnp.where(inside, strain, SOLID_STRAIN)
    elastic = foam.modulus * e
    over = jnp.maximum(e - foam.densify, 0.0)
    return inside, e, elastic, over


@jax.custom_jvp
def liner_stress(strain, foam: FoamLiner):
    """Stress in the foam at a compressive strain.

    Linear up to the plateau, flat, and from ``foam.densify`` on rising with
    ``stiffening * over**2 / (1 - strain)``. Negative strain pulls on the bonded
    layer with the elastic modulus. The strain is held at ``SOLID_STRAIN``.
    """
    _, e, elastic, over = _foam_state(strain, foam)
    return jnp.minimum(elastic, foam.plateau) + foam.stiffening * over ** 2 / (1.0 - e)


@liner_stress.defjvp
def _liner_stress_jvp(primals, tangents):
    strain, foam = primals
    d_strain, d_foam = tangents
    inside, e, elastic, over = _foam_state(strain, foam)
    d_e = jnp.where(inside, d_strain, 0.0)
    d_elastic = foam.modulus * d_e + d_foam.modulus * e
    d_base = jnp.where(elastic < foam.plateau, d_elastic, d_foam.plateau)
    room = 1.0 - e
    rise = over ** 2 / room
    d_rise = 2.0 * over / room * (d_e - d_foam.densify) + over ** 2 / room ** 2 * d_e
    out = jnp.minimum(elastic, foam.plateau) + foam.stiffening * rise
    return out, d_base + d_foam.stiffening * rise + foam.stiffening * d_rise


def simulate_drop(foam, speed, thickness=0.035, mass=4.7, area=4.0e-3, dt=1e-4, samples=160):
    """Acceleration trace (g) of a head form hitting the liner at `speed`."""

    def tick(state, _):
        depth, velocity = state
        stress = liner_stress(depth / thickness, foam) * 1.0e6
        acceleration = jnp.where(depth > 0, stress * area / mass, 0.0)
        velocity = velocity - acceleration * dt
        return (depth + velocity * dt, velocity), acceleration / G0

    _, trace = lax.scan(tick, (jnp.zeros_like(speed), speed), None, length=samples)
    return trace.T


def liner_objective(foam, speeds, meter, dt=1e-4, cfc=1000.0):
    trace = simulate_drop(foam, speeds, dt=dt)
    smooth = channel_class_filter(trace, channel_class(cfc, dt), False)
    return jnp.mean(meter(jnp.maximum(smooth, 0.0), jnp.asarray(dt)))


def rotation_score(record: DropRecord, critical=None):
    critical = jnp.asarray(CRITICAL_RATES) if critical is None else critical
    return jnp.max(brain_injury_criterion(record.angular, critical))


def optimise_liner(foam, speeds, steps=20, rate=1e-6):
    meter = HicMeter.for_rate(1.0e4)
    slope = jax.jit(jax.grad(lambda f: liner_objective(f, speeds, meter)))
    for _ in range(steps):
        foam = jax.tree_util.tree_map(lambda p, d: p - rate * d, foam, slope(foam))
    return foam


if __name__ == "__main__":
    eps = FoamLiner(*map(jnp.asarray, (20.0, 0.7, 0.6, 4.0)))
    print(optimise_liner(eps, jnp.array([4.5, 5.4]), steps=2))
