"""Sizing of neon signs: breakdown, running voltage, colour and dimming.

Units follow the trade: pressures times gaps in Torr cm, volts, milliamperes,
tube lengths in metres, bores in millimetres.
"""
from functools import partial

import jax
import jax.numpy as jnp

# Townsend coefficients A [1/(Torr cm)], B [V/(Torr cm)]
GASES = {
    "neon": (4.0, 100.0),
    "argon": (12.0, 180.0),
    "helium": (3.0, 34.0),
}
REFERENCE_MA = 30.0
COLUMN_VOLTS = 3600.0      # V mm / m at the reference current
DROOP = 0.22


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def strike_voltage(pressure_gap, emission, gas="neon"):
    """Paschen's breakdown voltage.

    Parameters
    ----------
    pressure_gap : array_like
        Pressure times electrode distance, Torr cm.
    emission : array_like
        Secondary emission coefficient of the cathode coating (> 0).
    gas : {"neon", "argon", "helium"}

    Notes
    -----
    Left of the Stoletow point the discharge takes a longer way round through
    the tube, so we hold the voltage at the curve's minimum there.
    """
    a, b = GASES[gas]
    level = jnp.log1p(1.0 / emission)
    depth = jnp.log(a * pressure_gap / level)
    right = b * pressure_gap / jnp.where(depth > 1, depth, 1.0)
    return jnp.where(depth > 1, right, b * jnp.e * level / a)


@strike_voltage.defjvp
def _strike_jvp(gas, primals, tangents):
    pressure_gap, emission = primals
    d_pg, d_em = tangents
    a, b = GASES[gas]
    level = jnp.log1p(1.0 / emission)
    depth = jnp.maximum(jnp.log(a * pressure_gap / level), 1.0)
    slope_pg = b * (depth - 1) / depth**2
    reach = jnp.maximum(pressure_gap, jnp.e * level / a)
    slope_level = b * reach / (depth**2 * level)
    d_level = -d_em / (emission * (1 + emission))
    return strike_voltage(pressure_gap, emission, gas), slope_pg * d_pg + slope_level * d_level


def _column(current, lengths, bores):
    droop = (current / REFERENCE_MA) ** -DROOP
    return droop[:, None] * COLUMN_VOLTS * lengths / bores


@jax.custom_vjp
def running_volts(current, lengths, bores, electrode_fall):
    """Voltage that each dimmer setting asks of the transformer.

    current (settings,) mA, through one series string of tubes with
    lengths (tubes,) and bores (tubes,); electrode_fall is the drop of one pair
    of electrodes (scalar), of which each tube has one.  Returns (settings,).
    """
    return _column(current, lengths, bores).sum(1) + lengths.shape[0] * electrode_fall


def _running_fwd(current, lengths, bores, electrode_fall):
    col = _column(current, lengths, bores)
    out = col.sum(1) + lengths.shape[0] * electrode_fall
    return out, (current, lengths, bores, col)


def _running_bwd(res, g):
    current, lengths, bores, col = res
    pulled = g[:, None] * col
    d_current = -DROOP * pulled.sum(1) / REFERENCE_MA
    d_lengths = jnp.einsum("n,ns->s", g, _column(current, jnp.ones_like(lengths), bores))
    d_bores = -pulled.sum(0) / bores
    return d_current, d_lengths, d_bores, lengths.shape[0] * g.sum()


running_volts.defvjp(_running_fwd, _running_bwd)


@jax.custom_gradient
def blended_colour(sign, ambient):
    """Chromaticity and luminance of a sign seen from across the street.

    sign: {"flux": (letters,), "xyz": (letters, 3)}; ambient: (3,) tristimulus
    of the street light that falls on top of it.
    Result: {"xy": (2,), "luminance": ()}.
    """
    total = sign["flux"] @ sign["xyz"] + ambient
    whole = total.sum()
    out = {"xy": total[:2] / whole, "luminance": total[1]}

    def pull(ct):
        d_total = jnp.zeros(3, total.dtype).at[:2].set(ct["xy"] / whole)
        d_total = d_total - ct["xy"] @ out["xy"] / whole
        d_total = d_total.at[1].add(ct["luminance"])
        d_sign = {"flux": sign["xyz"] @ d_total, "xyz": jnp.outer(sign["flux"], d_total)}
        return d_sign, d_total

    return out, pull


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dimmer_code(level, gamma, steps=256):
    """Fader position -> the lamp level that the DMX dimmer really puts out.

    The fader is limited to 0..1, bent by ``gamma`` (one number, >= 1) and rounded to one
    of ``steps`` codes.  The rounding has no useful slope: on purpose the
    derivative here goes straight through it, i.e. it is that of
    ``clip(level, 0, 1) ** gamma`` without the rounding.
    """
    return _dimmer_fwd(level, gamma, steps)[0]


def _dimmer_fwd(level, gamma, steps):
    x = jnp.clip(level, 0.0, 1.0)
    y = jnp.round(x**gamma * (steps - 1)) / (steps - 1)
    return y, (level, x, gamma)


def _dimmer_bwd(steps, res, g):
    level, x, gamma = res
    inside = (level > 0) & (level < 1)
    d_level = jnp.where(inside, gamma * x ** (gamma - 1), 0.0) * g
    log_x = jnp.log(jnp.where(x > 0, x, 1.0))
    return d_level, (g * x**gamma * log_x).sum()


dimmer_code.defvjp(_dimmer_fwd, _dimmer_bwd)


def demo():
    volts = strike_voltage(jnp.array([0.5, 5.0, 20.0]), 0.05, "neon")
    load = running_volts(jnp.array([20.0, 30.0]), jnp.array([1.2, 0.8]), jnp.array([12.0, 10.0]), 150.0)
    print("strike", volts, "running", load)


if __name__ == "__main__":
    demo()
