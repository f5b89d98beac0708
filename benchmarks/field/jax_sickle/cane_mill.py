"""Sugar-cane factory: milling tandem, juice tanks and boiling house balances.

The factory model is fitted to shift reports. Mills squeeze the cane in
series, mixed juice is buffered in tanks in front of the evaporators, and the
boiling house splits syrup into raw sugar and final molasses. Each unit is a
small function with its own backward pass, since the fits run over a whole
season at two-minute resolution.

Purities and pol fractions are fractions of one, not percent; tonnages in t.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
from jax import lax

TYPICAL_EXTRACTION = (0.70, 0.45, 0.40, 0.38, 0.42)
RAW_SUGAR_PURITY = 0.985
MOLASSES_PURITY = 0.34


def _reduce_to(value, like):
    """Sums a cotangent down to the shape that was broadcast."""
    shape = jnp.shape(like)
    lead = value.ndim - len(shape)
    value = jnp.sum(value, axis=tuple(range(lead)))
    ones = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return jnp.sum(value, axis=ones, keepdims=True) if ones else value


# ------------------------------------------------------------- juice tanks


def _tank_scan(feed, hold, start):
    def tick(level, inputs):
        f, h = inputs
        level = h * level + (1.0 - h) * f
        return level, level

    _, trace = lax.scan(tick, start, (feed, hold))
    return trace


@jax.custom_vjp
def tank_brix(feed, hold, start):
    """Brix leaving well-mixed buffer tanks.

    Parameters
    ----------
    feed : (time, tanks)
        Brix of the juice entering.
    hold : (time, tanks)
        Fraction of the tank's content not replaced in the interval,
        ``exp(-flow * dt / volume)``; it follows the flow.
    start : (tanks,)
        Brix at the beginning of the shift.

    Returns
    -------
    (time, tanks)
    """
    return _tank_scan(feed, hold, start)


def _tank_fwd(feed, hold, start):
    trace = _tank_scan(feed, hold, start)
    return trace, (feed, hold, start, trace)


def _tank_bwd(res, g):
    feed, hold, start, trace = res

    def tick(carry, inputs):
        g_now, h_now = inputs
        carry = g_now + h_now * carry
        return carry, carry

    _, adjoint = lax.scan(tick, jnp.zeros_like(start), (g, hold), reverse=True)
    before = jnp.concatenate([start[None], trace[:-1]], axis=0)
    return (1.0 - hold) * adjoint, (before - feed) * adjoint, hold[0] * adjoint[0]


tank_brix.defvjp(_tank_fwd, _tank_bwd)


# ---------------------------------------------------------- milling tandem


@jax.custom_gradient
def residual_pol(extraction):
    """Pol left in the bagasse after each mill, as a share of pol in cane.

    `extraction` is the individual extraction of every mill, mills on the last
    axis; 1 (a mill that leaves nothing) is allowed. The backward pass does no
    division.
    """
    kept = 1.0 - extraction
    left = jnp.cumprod(kept, axis=-1)

    def grad(g):
        ahead = jnp.concatenate(
            [jnp.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
        following = jnp.concatenate(
            [kept[..., 1:], jnp.zeros_like(kept[..., :1])], axis=-1)

        def tick(carry, inputs):
            g_mill, k_next = inputs
            carry = g_mill + k_next * carry
            return carry, carry

        _, tail = lax.scan(
            tick, jnp.zeros_like(g[..., 0]),
            (jnp.moveaxis(g, -1, 0), jnp.moveaxis(following, -1, 0)), reverse=True)
        return -ahead * jnp.moveaxis(tail, 0, -1)

    return left, grad


def tandem_report(extraction):
    """Overall extraction and each mill's share of the extracted pol."""
    left = residual_pol(extraction)
    before = jnp.concatenate([jnp.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
    gained = before - left
    overall = 1.0 - left[..., -1]
    return {"overall": overall, "shares": gained / overall[..., None]}


# ------------------------------------------------------------ boiling house


@jax.custom_vjp
def recovery_split(solids, purity):
    """Two-product balance of the boiling house (SJM).

    Args:
      solids: dissolved solids entering, t.
      purity: dict with ``juice``, ``sugar`` and ``molasses``; any of them may
        be a scalar shared by the shifts. Sugar must be purer than molasses.

    Returns:
      dict with ``crystal`` and ``molasses`` solids (t) and ``recovery``, the
      share of the pol entering that leaves in the sugar.
    """
    j, s, m = purity["juice"], purity["sugar"], purity["molasses"]
    span = s - m
    return {
        "crystal": solids * (j - m) / span,
        "molasses": solids * (s - j) / span,
        "recovery": s * (j - m) / (j * span),
    }


def _recovery_fwd(solids, purity):
    return recovery_split(solids, purity), (solids, purity)


def _recovery_bwd(res, g):
    solids, purity = res
    j, s, m = purity["juice"], purity["sugar"], purity["molasses"]
    span = s - m
    above, below = j - m, s - j
    net = (g["crystal"] - g["molasses"]) * solids / span

    d_solids = (g["crystal"] * above + g["molasses"] * below) / span
    by_mass = {"juice": net, "sugar": -net * above / span, "molasses": -net * below / span}
    by_share = {
        "juice": g["recovery"] * s * m / (j ** 2 * span),
        "sugar": -g["recovery"] * above * m / (j * span ** 2),
        "molasses": -g["recovery"] * s * below / (j * span ** 2),
    }
    # The recovery does not carry the shape of the solids, hence two reductions.
    d_purity = {name: _reduce_to(by_mass[name], like) + _reduce_to(by_share[name], like)
                for name, like in purity.items()}
    return _reduce_to(d_solids, solids), d_purity


recovery_split.defvjp(_recovery_fwd, _recovery_bwd)


# ------------------------------------------------------------- whole factory


@dataclasses.dataclass(frozen=True)
class Factory:
    """Static layout of the factory.

    volumes: tank volumes in m3, in parallel trains.
    interval: length of a reporting interval in hours.
    """

    volumes: tuple = (60.0, 45.0)
    interval: float = 1.0 / 30.0
    mills: int = 5

    def init(self, shifts: int):
        return {
            "mills": {"logit_extraction": jnp.log(jnp.asarray(TYPICAL_EXTRACTION[: self.mills]))
                      - jnp.log1p(-jnp.asarray(TYPICAL_EXTRACTION[: self.mills]))},
            "tanks": {"start_brix": jnp.full((len(self.volumes),), 13.5),
                      "dead_share": jnp.full((len(self.volumes),), 0.1)},
            "boiling": {"sugar": jnp.asarray(RAW_SUGAR_PURITY),
                        "molasses": jnp.full((shifts,), MOLASSES_PURITY)},
        }

    def hold(self, params, flow):
        """flow [time, tanks] in m3/h -> unreplaced fraction."""
        live = jnp.asarray(self.volumes) * (1.0 - params["dead_share"])
        return jnp.exp(-flow * self.interval / live)

    def brix_trace(self, params, feed, flow):
        tanks = params["tanks"]
        return tank_brix(feed, self.hold(tanks, flow), tanks["start_brix"])

    def pol_extracted(self, params, cane_pol):
        extraction = jax.nn.sigmoid(params["mills"]["logit_extraction"])
        return cane_pol * tandem_report(extraction)["overall"]

    def boiling_house(self, params, solids, juice_purity):
        return recovery_split(solids, {"juice": juice_purity, **params["boiling"]})


def season_misfit(params, factory, reports, weights=None):
    """Weighted sum of squared residuals of the shift reports.

    reports: dict with `feed`, `flow`, `brix` (time x tanks) and per shift
    `cane_pol`, `juice_pol`, `solids`, `purity`, `bagged`, `molasses`.
    """
    weights = {"brix": 1.0, "pol": 1.0, "bags": 1e-3, **(weights or {})}
    brix = factory.brix_trace(params, reports["feed"], reports["flow"])
    pol = factory.pol_extracted(params, reports["cane_pol"])
    house = factory.boiling_house(params, reports["solids"], reports["purity"])
    return (weights["brix"] * jnp.mean((brix - reports["brix"]) ** 2)
            + weights["pol"] * jnp.mean((pol - reports["juice_pol"]) ** 2)
            + weights["bags"] * jnp.mean((house["crystal"] - reports["bagged"]) ** 2)
            + weights["bags"] * jnp.mean((house["molasses"] - reports["molasses"]) ** 2))


if __name__ == "__main__":
    plant = Factory()
    p = plant.init(shifts=4)
    k = jax.random.split(jax.random.PRNGKey(3), 3)
    data = {
        "feed": 13.0 + jax.random.normal(k[0], (40, 2)),
        "flow": 150.0 + 40.0 * jax.random.uniform(k[1], (40, 2)),
        "brix": 13.0 + 0.3 * jax.random.normal(k[2], (40, 2)),
        "cane_pol": jnp.array([130.0, 128.0, 140.0, 120.0]),
        "juice_pol": jnp.array([124.0, 122.0, 133.0, 115.0]),
        "solids": jnp.array([150.0, 149.0, 160.0, 140.0]),
        "purity": jnp.array([0.83, 0.82, 0.85, 0.80]),
        "bagged": jnp.array([112.0, 110.0, 125.0, 100.0]),
        "molasses": jnp.array([37.0, 38.0, 34.0, 40.0]),
    }
    print(season_misfit(p, plant, data))
    print(jax.grad(season_misfit)(p, plant, data))
