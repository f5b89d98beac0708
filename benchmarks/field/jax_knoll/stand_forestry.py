"""Individual-tree growth model: competition, stand summaries, height curves."""
import functools

import jax
import jax.numpy as jnp

BREAST_HEIGHT = 1.3


def _pair_weights(xy, alive, radius, eps=0.1):
    diff = xy[:, None, :] - xy[None, :, :]
    sq = jnp.sum(diff * diff, axis=-1)
    apart = sq > 0
    dist = jnp.where(apart, jnp.sqrt(jnp.where(apart, sq, 1.0)), 0.0)
    n = xy.shape[0]
    near = alive[:, None] & alive[None, :] & (dist < radius) & ~jnp.eye(n, dtype=bool)
    inv = jnp.where(near, 1.0 / (dist + eps), 0.0)
    unit = diff / jnp.where(apart, dist, 1.0)[..., None]
    return inv, unit


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def hegyi_competition(dbh, xy, alive, radius=8.0):
    """Hegyi index of each living tree, sum_j (D_j / D_i) / (d_ij + 0.1) over living neighbours; 0 for dead ones."""
    inv, _ = _pair_weights(xy, alive, radius)
    own = jnp.where(alive, dbh, 1.0)
    return inv @ own / own


def _hegyi_fwd(dbh, xy, alive, radius):
    inv, unit = _pair_weights(xy, alive, radius)
    own = jnp.where(alive, dbh, 1.0)
    index = inv @ own / own
    return index, (own, alive, index, inv, unit)


def _hegyi_bwd(radius, res, g):
    own, alive, index, inv, unit = res
    per = g / own
    d_dbh = inv.T @ per - per * index
    d_dbh = jnp.where(alive, d_dbh, 0.0)
    slope = -(inv**2) * per[:, None] * own[None, :]
    d_xy = jnp.einsum("ij,ijc->ic", slope + slope.T, unit)
    return d_dbh, d_xy, None


hegyi_competition.defvjp(_hegyi_fwd, _hegyi_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def plot_qmd(dbh, expansion, plot, num_plots):
    """Quadratic mean diameter by sample plot.

    ``qmd_p = sqrt( sum_{i in p} w_i d_i^2 / sum_{i in p} w_i )``

    Args:
      dbh: ``(N,)`` diameters at breast height, cm, positive.
      expansion: ``(N,)`` expansion factors ``w`` (stems per hectare that a tally tree stands
        for), positive. Under a fixed-radius design they are equal, under Bitterlich sampling
        they fall with the diameter.
      plot: ``(N,)`` int ids in ``[0, num_plots)``, in any order.
      num_plots: static number of plots. Plots with no trees give 0.

    Returns:
      ``(num_plots,)`` diameters, cm.
    """
    return _qmd_parts(dbh, expansion, plot, num_plots)[0]


def _qmd_parts(dbh, expansion, plot, num_plots):
    total = jax.ops.segment_sum(expansion * dbh**2, plot, num_plots)
    stems = jax.ops.segment_sum(expansion, plot, num_plots)
    filled = stems > 0
    ratio = jnp.where(filled, total, 1.0) / jnp.where(filled, stems, 1.0)
    return jnp.where(filled, jnp.sqrt(ratio), 0.0), stems


def _qmd_fwd(dbh, expansion, plot, num_plots):
    qmd, _ = _qmd_parts(dbh, expansion, plot, num_plots)
    return qmd, (dbh, expansion, plot, qmd)


def _qmd_bwd(num_plots, res, g):
    dbh, expansion, plot, qmd = res
    stems = jax.ops.segment_sum(jnp.ones_like(dbh), plot, num_plots)
    scale = g / jnp.where(qmd > 0, 2.0 * qmd * stems, 1.0)
    scale = scale[plot]
    d_dbh = 2.0 * scale * expansion * dbh
    d_exp = scale * (dbh**2 - qmd[plot] ** 2)
    return d_dbh, d_exp, None


plot_qmd.defvjp(_qmd_fwd, _qmd_bwd)


@jax.custom_vjp
def chapman_richards_height(table, age, species):
    a, k, p = (table[name][species] for name in ("asymptote", "rate", "shape"))
    return BREAST_HEIGHT + a * (-jnp.expm1(-k * age)) ** p


def _height_fwd(table, age, species):
    a, k, p = (table[name][species] for name in ("asymptote", "rate", "shape"))
    grown = -jnp.expm1(-k * age)
    return BREAST_HEIGHT + a * grown**p, (table, age, species, grown)


def _height_bwd(res, g):
    table, age, species, grown = res
    a, k, p = (table[name][species] for name in ("asymptote", "rate", "shape"))
    power = grown**p
    inner = g * a * p * power / grown * (1.0 - grown)
    per_tree = {"asymptote": g * power, "rate": inner * age, "shape": g * a * power * jnp.log(grown)}
    d_table = {name: jnp.zeros_like(table[name]).at[species].set(v) for name, v in per_tree.items()}
    return d_table, inner * k, None


chapman_richards_height.defvjp(_height_fwd, _height_bwd)


def stand_height(table, trees, num_plots):
    """Height of the tree of quadratic mean diameter, by plot (dominant species only)."""
    height = chapman_richards_height(table, trees["age"], trees["species"])
    qmd = plot_qmd(trees["dbh"], trees["expansion"], trees["plot"], num_plots)
    return height, qmd
