from functools import partial
from typing import NamedTuple
import math

import jax
import jax.numpy as jnp

MU0 = 4e-7 * math.pi


@jax.custom_jvp
def coil_stack_field(z, centre, radius, ampere_turns):
    """On-axis flux density of coaxial thin loops, in microtesla.

    ``z`` has any shape; ``centre``, ``radius`` and ``ampere_turns`` are ``(coils,)`` in metres, metres and
    amperes. Radii are positive, currents are signed. The fields of the coils add up.
    """
    d = z[..., None] - centre
    s = radius ** 2 + d ** 2
    return 0.5e6 * MU0 * (ampere_turns * radius ** 2 * s ** -1.5).sum(-1)


@coil_stack_field.defjvp
def _coil_jvp(primals, tangents):
    z, centre, radius, current = primals
    dz, dc, dr, di = tangents
    d = z[..., None] - centre
    s = radius ** 2 + d ** 2
    shape = radius ** 2 * s ** -1.5
    axial = -3.0 * d * radius ** 2 * s ** -2.5
    radial = radius * (2.0 * d ** 2 - radius ** 2) * s ** -2.5
    k = 0.5e6 * MU0
    out = k * (current * shape).sum(-1)
    tan = di * shape + current * (axial * (dz[..., None] - dc) + radial * dr)
    return out, k * tan.sum(-1)


class SteinmetzTable(NamedTuple):
    k: jax.Array
    alpha: jax.Array
    beta: jax.Array


@jax.custom_vjp
def steinmetz_core_loss(table, material, freq, b_peak):
    """Loss density k f^alpha B^beta of each part; `material` (parts,) indexes the table's (materials,) fields."""
    return _steinmetz(table, material, freq, b_peak)


def _steinmetz(table, material, freq, b_peak):
    return table.k[material] * freq ** table.alpha[material] * b_peak ** table.beta[material]


def _steinmetz_fwd(table, material, freq, b_peak):
    p = _steinmetz(table, material, freq, b_peak)
    return p, (table, material, freq, b_peak, p)


def _steinmetz_bwd(res, g):
    table, material, freq, b_peak, p = res
    gp = g * p

    def to_table(rows):
        return jnp.zeros_like(table.k).at[material].set(rows)

    d_table = SteinmetzTable(
        k=to_table(gp / table.k[material]),
        alpha=to_table(gp * jnp.log(freq)),
        beta=to_table(gp * jnp.log(b_peak)),
    )
    return d_table, None, gp * table.alpha[material] / freq, gp * table.beta[material] / b_peak


steinmetz_core_loss.defvjp(_steinmetz_fwd, _steinmetz_bwd)


def _gap_area(core, fringing):
    if fringing:
        return (core["width"] + core["gap"]) * (core["depth"] + core["gap"])
    return core["width"] * core["depth"]


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def gapped_inductance(core, fringing=False):
    return _inductance(core, fringing)[0]


def _inductance(core, fringing):
    iron = core["path"] / (core["mu_r"] * core["width"] * core["depth"])
    air_area = _gap_area(core, fringing)
    air = core["gap"] / air_area
    ind = MU0 * core["turns"] ** 2 / (iron + air)
    return ind, (iron, air, air_area)


def _inductance_fwd(core, fringing):
    ind, mid = _inductance(core, fringing)
    return ind, (core, ind, mid)


def _inductance_bwd(fringing, res, g):
    core, ind, (iron, air, air_area) = res
    d_rel = -g * ind / (iron + air)
    pad = core["gap"] if fringing else 0.0
    return ({
        "turns": 2.0 * g * ind / core["turns"],
        "path": d_rel * iron / core["path"],
        "mu_r": -d_rel * iron / core["mu_r"],
        "gap": d_rel / air_area,
        "width": -d_rel * (iron / core["width"] + air / (core["width"] + pad)),
        "depth": -d_rel * (iron / core["depth"] + air / (core["depth"] + pad)),
    },)


gapped_inductance.defvjp(_inductance_fwd, _inductance_bwd)
