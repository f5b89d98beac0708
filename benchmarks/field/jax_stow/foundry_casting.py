"""Sand-casting layout terms for gradient-based methoding.

The optimiser in the pattern shop moves section sizes, riser sizes and gating
dimensions at once.  The pieces here are the four quantities it needs:

* solidification time of each section (Chvorinov),
* pouring time and gate velocity of the filling system (Campbell's mean head),
* metal temperature along the runner,
* feed metal missing at each riser.

SI units throughout, temperatures in degrees Celsius.  Alloy data are the
house values, not handbook ones.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

GRAVITY = 9.81
UNFED = -1

# solidification shrinkage, liquid density, mould constant (s/m^2)
ALLOYS = {
    "grey_iron": dict(shrinkage=0.012, density=6980.0, mould_constant=1.0e6),
    "ductile_iron": dict(shrinkage=0.035, density=6900.0, mould_constant=1.1e6),
    "carbon_steel": dict(shrinkage=0.045, density=7050.0, mould_constant=7.6e5),
    "al_si7": dict(shrinkage=0.055, density=2390.0, mould_constant=2.2e6),
    "bronze": dict(shrinkage=0.050, density=7850.0, mould_constant=9.5e5),
}


class Gating(NamedTuple):
    """Filling system of one or several castings (broadcastable leaves)."""

    sprue_height: jax.Array  # pouring basin level above the gate
    cast_height: jax.Array  # overall height of the cavity
    above_gate: jax.Array  # cavity height above the gate
    choke_area: jax.Array
    discharge: jax.Array


def _sum_to(value, like):
    """Sum a cotangent down to the shape of the operand it belongs to."""
    shape = jnp.shape(like)
    extra = value.ndim - len(shape)
    value = jnp.sum(value, axis=tuple(range(extra))) if extra else value
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return jnp.sum(value, axis=ones, keepdims=True) if ones else value


# --------------------------------------------------------------------------
# solidification


@functools.partial(jax.custom_jvp, nondiff_argnums=(3,))
def section_freeze_time(volume, area, mould_constant, exponent=2.0):
    """Chvorinov's rule, ``C * (V / A) ** n``.

    Parameters
    ----------
    volume, area : array, shape (sections,)
        Metal volume and cooling surface of every section.
    mould_constant : array
        Scalar or one per section (a chill lowers it locally).
    exponent : float
        2 for plain sand; chilled or insulated moulds are fitted with
        anything between 1.4 and 2.
    """
    modulus = volume / area
    return mould_constant * modulus**exponent


@section_freeze_time.defjvp
def _section_freeze_time_jvp(exponent, primals, tangents):
    volume, area, constant = primals
    d_volume, d_area, d_constant = tangents
    modulus = volume / area
    d_modulus = (d_volume - modulus * d_area) / area
    out = constant * modulus**exponent
    d_out = d_constant * modulus**exponent + exponent * constant * modulus * d_modulus
    return out, d_out


def feeding_order_penalty(volume, area, constant, chain, exponent=2.0, margin=1.1):
    """Penalise neighbours in ``chain`` which do not freeze in sequence.

    ``chain`` lists pairs (thin, thick); the thick one must outlast the thin one
    by the factor ``margin``.
    """
    times = section_freeze_time(volume, area, constant, exponent)
    thin, thick = chain[:, 0], chain[:, 1]
    lag = margin * times[thin] - times[thick]
    return jnp.sum(jax.nn.softplus(lag / 10.0))


# --------------------------------------------------------------------------
# filling


def _mean_head(gating):
    return gating.sprue_height - gating.above_gate**2 / (2.0 * gating.cast_height)


@jax.custom_vjp
def fill_duration(gating, mass, density):
    """Pouring time and gate velocity.

    Args:
      gating: a ``Gating``; ``above_gate`` is 0 for top pouring and equals
        ``cast_height`` for bottom pouring.
      mass: poured mass, (castings,).
      density: liquid density, scalar or (castings,).

    Returns:
      ``(seconds, velocity)``, both (castings,).
    """
    velocity = jnp.sqrt(2.0 * GRAVITY * _mean_head(gating))
    rate = density * gating.choke_area * gating.discharge * velocity
    return mass / rate, velocity


def _fill_fwd(gating, mass, density):
    seconds, velocity = fill_duration(gating, mass, density)
    return (seconds, velocity), (gating, mass, density, seconds, velocity)


def _fill_bwd(res, cts):
    gating, mass, density, seconds, velocity = res
    ct_seconds, ct_velocity = cts
    head = _mean_head(gating)
    through = ct_seconds * seconds
    d_head = -0.5 * through / head + ct_velocity * GRAVITY / velocity
    ratio = gating.above_gate / gating.cast_height
    d_gating = Gating(
        sprue_height=_sum_to(d_head, gating.sprue_height),
        cast_height=_sum_to(0.5 * d_head * ratio**2, gating.cast_height),
        above_gate=_sum_to(-d_head * ratio, gating.above_gate),
        choke_area=_sum_to(-through / gating.choke_area, gating.choke_area),
        discharge=_sum_to(-through / gating.discharge, gating.discharge),
    )
    rate = density * gating.choke_area * gating.discharge * velocity
    d_mass = _sum_to(ct_seconds / rate, mass)
    return d_gating, d_mass, _sum_to(-through / density, density)


fill_duration.defvjp(_fill_fwd, _fill_bwd)


# --------------------------------------------------------------------------
# runner


def segment_decay(length, perimeter, flow, film=900.0, heat_capacity=7.5e2):
    """Share of the excess temperature left after a runner segment."""
    return jnp.exp(-film * perimeter * length / (flow * heat_capacity))


@jax.custom_vjp
def runner_temperature(inlet, mould, decay):
    """Metal temperature behind each runner segment.

    inlet is (castings,), mould (segments,), decay (castings, segments); the
    result is (castings, segments).
    """

    def step(temp, seg):
        wall, left = seg
        temp = wall + (temp - wall) * left
        return temp, temp

    _, temps = jax.lax.scan(step, inlet, (mould, decay.T))
    return temps.T


def _runner_fwd(inlet, mould, decay):
    temps = runner_temperature(inlet, mould, decay)
    return temps, (inlet, mould, decay, temps)


def _runner_bwd(res, ct):
    inlet, mould, decay, temps = res
    entering = jnp.concatenate([inlet[:, None], temps[:, :-1]], axis=1)

    def step(carry, seg):
        ct_k, left = seg
        adjoint = ct_k + carry * left
        return adjoint, adjoint

    _, adjoint = jax.lax.scan(
        step, jnp.zeros_like(inlet), (ct.T, decay.T), reverse=True
    )
    adjoint = adjoint.T
    d_decay = adjoint * (entering - mould)
    d_mould = jnp.sum(adjoint * (1.0 - decay), axis=0)
    d_inlet = adjoint[:, 0] * decay[:, 0]
    return d_inlet, d_mould, d_decay


runner_temperature.defvjp(_runner_fwd, _runner_bwd)


def cold_shut_risk(inlet, mould, lengths, perimeter, flow, liquidus=1150.0):
    """Smooth count of ingates reached below ``liquidus`` plus 40 degrees."""
    decay = segment_decay(lengths, perimeter, flow[:, None])
    temps = runner_temperature(inlet, mould, decay)
    return jnp.sum(jax.nn.sigmoid((liquidus + 40.0 - temps) / 8.0), axis=1)


# --------------------------------------------------------------------------
# feeding


@jax.custom_vjp
def riser_shortage(shrinkage, volume, riser_volume, efficiency, fed_by):
    """Squared feed shortage of every riser, relative to its size.

    Parameters
    ----------
    shrinkage, volume : (sections,)
    riser_volume, efficiency : (risers,)
    fed_by : int array, (sections,)
        Riser feeding each section, or ``UNFED``.

    Returns
    -------
    (risers,) array ``0.5 * max(demand - efficiency * V, 0) ** 2 / V``.
    """
    return _shortage_parts(shrinkage, volume, riser_volume, efficiency, fed_by)[0]


def _shortage_parts(shrinkage, volume, riser_volume, efficiency, fed_by):
    fed = fed_by != UNFED
    slot = jnp.where(fed, fed_by, 0)
    need = jnp.where(fed, shrinkage * volume, 0.0)
    demand = jnp.zeros_like(riser_volume).at[slot].add(need)
    short = jnp.maximum(demand - efficiency * riser_volume, 0.0)
    return 0.5 * short**2 / riser_volume, short, fed, slot


def _shortage_fwd(shrinkage, volume, riser_volume, efficiency, fed_by):
    out, short, fed, slot = _shortage_parts(
        shrinkage, volume, riser_volume, efficiency, fed_by
    )
    return out, (shrinkage, volume, riser_volume, efficiency, short, fed, slot)


def _shortage_bwd(res, ct):
    shrinkage, volume, riser_volume, efficiency, short, fed, slot = res
    lack = short / riser_volume
    d_demand = ct * lack
    d_need = jnp.where(fed, d_demand[slot], 0.0)
    d_riser = -d_demand * efficiency - 0.5 * ct * lack**2
    return (
        d_need * volume,
        d_need * shrinkage,
        d_riser,
        -d_demand * riser_volume,
        None,
    )


riser_shortage.defvjp(_shortage_fwd, _shortage_bwd)


class Methoding:
    """One casting's objective; call it with the free parameters as a dict."""

    def __init__(self, alloy, fed_by, chain, exponent=2.0):
        self.alloy = ALLOYS[alloy]
        self.fed_by = jnp.asarray(fed_by)
        self.chain = jnp.asarray(chain)
        self.exponent = exponent

    def __call__(self, free):
        sections, areas = free["volume"], free["area"]
        order = feeding_order_penalty(
            sections, areas, self.alloy["mould_constant"], self.chain, self.exponent
        )
        shortage = riser_shortage(
            jnp.full_like(sections, self.alloy["shrinkage"]),
            sections,
            free["riser"],
            jnp.full_like(free["riser"], 0.16),
            self.fed_by,
        )
        mass = self.alloy["density"] * (jnp.sum(sections) + jnp.sum(free["riser"]))
        seconds, velocity = fill_duration(
            free["gating"], mass[None], jnp.asarray(self.alloy["density"])
        )
        turbulence = jnp.sum(jnp.maximum(velocity - 0.5, 0.0) ** 2)
        return order + 1e4 * jnp.sum(shortage) + turbulence + 0.01 * jnp.sum(seconds)


if __name__ == "__main__":
    layout = Methoding("carbon_steel", fed_by=[0, 0, 1, UNFED], chain=np.array([[0, 1], [1, 2]]))
    free = {
        "volume": jnp.array([2.0e-4, 5.0e-4, 9.0e-4, 1.0e-4]),
        "area": jnp.array([0.030, 0.045, 0.060, 0.020]),
        "riser": jnp.array([1.5e-4, 2.0e-4]),
        "gating": Gating(
            sprue_height=jnp.array([0.25]),
            cast_height=jnp.array([0.18]),
            above_gate=jnp.array([0.09]),
            choke_area=jnp.array([3.0e-4]),
            discharge=jnp.array(0.8),
        ),
    }
    value, grads = jax.value_and_grad(layout)(free)
    print("objective", value)
    print(jax.tree_util.tree_map(lambda g: np.asarray(g).round(4), grads))
    risk = cold_shut_risk(
        jnp.array([1390.0, 1370.0]),
        jnp.full((4,), 60.0),
        jnp.full((4,), 0.12),
        0.11,
        jnp.array([1.6, 1.2]),
    )
    print("cold shuts", risk)
