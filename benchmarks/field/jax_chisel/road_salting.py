"""Winter road maintenance: brine, spreading and what traffic leaves of it.

Route planners tune three numbers per stretch of road: how much a spreader
puts down, where the spinner throws it, and how soon the lorry has to come
back.  The functions below are the differentiable core of the planner.

Arrays over time put time first; a *stretch* is a few hundred metres of road
with uniform surface.  Salt is g/m^2, temperatures are degrees Celsius.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

# Coefficients of the freezing curve by de-icer: linear term (K per weight
# percent), eutectic composition (weight percent), eutectic temperature and the
# slope of the saturation branch above it.
DEICERS = {
    "nacl": (0.580, 23.3, -21.1, 5.10),
    "mgcl2": (0.430, 21.6, -33.5, 4.20),
    "cacl2": (0.370, 29.8, -51.0, 5.60),
}

DEFAULT_DEICER = "nacl"
FILM_DENSITY = 1000.0
MINUTES_PER_PASS = 15.0
MIN_INTENSITY = 1e-6


@dataclass(frozen=True)
class RouteSpec:
    """Static description of a gritting route."""

    stretches: int
    lanes: int
    deicer: str = DEFAULT_DEICER
    lane_axis: int = -1
    target_margin: float = 1.0


def _curve(kind):
    linear, eutectic, t_eutectic, slope = DEICERS[kind]
    quadratic = (-t_eutectic - linear * eutectic) / eutectic**2
    return linear, quadratic, eutectic, t_eutectic, slope


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def brine_freezing_point(percent, kind):
    """Temperature at which the first solid appears in a brine.

    Args:
      percent: weight percent of anhydrous salt, any shape, not negative.
      kind: key of `DEICERS`.

    Below the eutectic composition ice comes out first and the curve is a
    quadratic through 0 degC and the eutectic; above it the salt hydrate comes
    out and the temperature climbs linearly.
    """
    linear, quadratic, eutectic, t_eutectic, slope = _curve(kind)
    ice = -(linear + quadratic * percent) * percent
    hydrate = t_eutectic + slope * (percent - eutectic)
    return jnp.where(percent <= eutectic, ice, hydrate)


@brine_freezing_point.defjvp
def _brine_freezing_point_jvp(kind, primals, tangents):
    (percent,), (dot,) = primals, tangents
    linear, quadratic, eutectic, _, slope = _curve(kind)
    rate = jnp.where(percent <= eutectic, -linear - 2.0 * quadratic * percent, slope)
    return brine_freezing_point(percent, kind), rate * dot


# ---------------------------------------------------------------------------
# Residual salt
# ---------------------------------------------------------------------------

def _residual_scan(applied, traffic, loss):
    stays = jnp.exp(-loss * traffic)

    def step(carry, frame):
        salt, washed = carry
        put, stay = frame
        before = salt + put
        after = before * stay
        washed = washed + before * (1.0 - stay)
        return (after, washed), (after, before)

    zero = jnp.zeros(applied.shape[1:], applied.dtype)
    (_, washed), (residual, before) = jax.lax.scan(step, (zero, zero), (applied, stays))
    return residual, washed, before, stays


@jax.custom_vjp
def residual_salt(applied, traffic, loss):
    """Salt on the road after each interval, and what went into the verge.

    Each interval the spreader adds `applied`, then vehicles carry off the
    fraction 1 - exp(-loss * traffic).

    Parameters
    ----------
    applied : (intervals, stretches)
        Spreading rate.
    traffic : (intervals, stretches)
        Hundreds of vehicles per interval.
    loss : (stretches,)
        Loss coefficient of the surface, larger for porous asphalt.

    Returns
    -------
    residual : (intervals, stretches)
    washed : (stretches,)
        Salt lost over the whole period.
    """
    residual, washed, _, _ = _residual_scan(applied, traffic, loss)
    return residual, washed


def _residual_salt_fwd(applied, traffic, loss):
    residual, washed, before, stays = _residual_scan(applied, traffic, loss)
    return (residual, washed), (traffic, loss, before, stays)


def _residual_salt_bwd(saved, cotangents):
    traffic, loss, before, stays = saved
    g_residual, g_washed = cotangents

    def step(lam, frame):
        g_t, before_t, stay_t, traffic_t = frame
        lam = lam + g_t
        d_exponent = before_t * stay_t * (lam - g_washed)
        loss_term = before_t * stay_t * lam * traffic_t
        lam = lam * stay_t + g_washed * (1.0 - stay_t)
        return lam, (lam, -loss * d_exponent, loss_term)

    _, (d_applied, d_traffic, loss_terms) = jax.lax.scan(
        step,
        jnp.zeros_like(g_washed),
        (g_residual, before, stays, traffic),
        reverse=True,
    )
    return d_applied, d_traffic, -loss_terms.sum(axis=0)


residual_salt.defvjp(_residual_salt_fwd, _residual_salt_bwd)


# ---------------------------------------------------------------------------
# Where the spinner throws
# ---------------------------------------------------------------------------

def _line_total(x, axis=-1):
    return jnp.sum(x, axis=axis, keepdims=True)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def lane_share(intensity, sharpness, axis=-1):
    """Share of the discharge landing in each lane.

    ``share_i = I_i**q / sum_j I_j**q`` with the sum along `axis`.  Logs of the
    spinner tests come as (stretches, lanes), the planner's own tables as
    (lanes, stretches); pass ``axis=0`` for those.

    Args:
      intensity: positive throw intensities.
      sharpness: the exponent q, a scalar.
      axis: axis that runs over lanes.
    """
    powered = jnp.maximum(intensity, MIN_INTENSITY) ** sharpness
    return powered / _line_total(powered, axis)


@lane_share.defjvp
def _lane_share_jvp(axis, primals, tangents):
    intensity, sharpness = primals
    d_intensity, d_sharpness = tangents
    share = lane_share(intensity, sharpness, axis)
    floored = jnp.maximum(intensity, MIN_INTENSITY)
    moving = intensity > MIN_INTENSITY
    relative = (
        sharpness * jnp.where(moving, d_intensity / floored, 0.0)
        + d_sharpness * jnp.log(floored)
    )
    pulled = share * relative
    return share, pulled - share * _line_total(pulled)


# ---------------------------------------------------------------------------
# Planner
# ---------------------------------------------------------------------------

def brine_percent(salt, film):
    """Weight percent from salt (g/m^2) in a water film (mm)."""
    water = FILM_DENSITY * jnp.maximum(film, 1e-3)
    return 100.0 * salt / (salt + water)


def freeze_margin(salt, film, surface_temperature, deicer=DEFAULT_DEICER):
    """Degrees by which the brine stays liquid (negative: it freezes)."""
    point = brine_freezing_point(brine_percent(salt, film), deicer)
    return surface_temperature - point


class GrittingPlan:
    """Cost of a spreading plan over one night.

    The parameters are a dict with ``rate`` (intervals, stretches), the throw
    ``intensity`` laid out as `RouteSpec.lane_axis` says, ``sharpness`` and the
    calibrated ``loss`` per stretch.
    """

    def __init__(self, spec: RouteSpec, salt_price=0.08, verge_price=0.03):
        self.spec = spec
        self.salt_price = salt_price
        self.verge_price = verge_price

    def init(self, intervals):
        spec = self.spec
        by_lane = (
            (spec.stretches, spec.lanes)
            if spec.lane_axis in (-1, 1)
            else (spec.lanes, spec.stretches)
        )
        return {
            "rate": jnp.full((intervals, spec.stretches), 10.0),
            "intensity": jnp.ones(by_lane),
            "sharpness": jnp.array(1.0),
            "loss": jnp.full((spec.stretches,), 0.05),
        }

    def cost(self, params, traffic, film, temperature):
        spec = self.spec
        residual, washed = residual_salt(params["rate"], traffic, params["loss"])
        margin = freeze_margin(residual, film, temperature, spec.deicer)
        short = jax.nn.softplus(spec.target_margin - margin)
        share = lane_share(params["intensity"], params["sharpness"], spec.lane_axis)
        uneven = jnp.mean((share - 1.0 / spec.lanes) ** 2)
        return (
            short.mean()
            + self.salt_price * params["rate"].mean()
            + self.verge_price * washed.mean()
            + uneven
        )

    def improve(self, params, traffic, film, temperature, rate=0.5):
        grads = jax.grad(self.cost)(params, traffic, film, temperature)
        moved = dict(params)
        moved["rate"] = jnp.maximum(params["rate"] - rate * grads["rate"], 0.0)
        return moved


def calibrate_loss(plan_rate, traffic, measured, verge_sample, loss, rate=1e-5):
    """One descent step on the loss coefficients.

    `measured` are residual-salt readings by the road-side sensor and
    `verge_sample` the salt found in the collecting trays.
    """

    def misfit(loss):
        residual, washed = residual_salt(plan_rate, traffic, loss)
        return jnp.sum((residual - measured) ** 2) + jnp.sum((washed - verge_sample) ** 2)

    return loss - rate * jax.grad(misfit)(loss)


if __name__ == "__main__":
    key = jax.random.PRNGKey(4)
    spec = RouteSpec(stretches=5, lanes=3, deicer="mgcl2", lane_axis=0)
    plan = GrittingPlan(spec)
    params = plan.init(8)
    traffic = jax.random.uniform(key, (8, 5), minval=0.2, maxval=6.0)
    film = jnp.full((8, 5), 0.1)
    temperature = jnp.linspace(-1.0, -6.0, 8)[:, None]
    print("cost", plan.cost(params, traffic, film, temperature))
    for _ in range(3):
        params = plan.improve(params, traffic, film, temperature)
    print("rates", params["rate"].mean(axis=1))
