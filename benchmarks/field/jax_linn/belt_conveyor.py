import functools

import jax
import jax.numpy as jnp

G = 9.80665


@jax.custom_vjp
def drive_tensions(pull, wrap, mu):
    """Tight and slack side tension at each drive pulley on the point of slip.

    pull [..., P] peripheral force, wrap [P] wrap angle in rad (> 0), mu scalar friction (> 0).
    """
    grip = jnp.expm1(mu * wrap)
    slack = pull / grip
    return slack + pull, slack


def _drive_fwd(pull, wrap, mu):
    grip = jnp.expm1(mu * wrap)
    slack = pull / grip
    return (slack + pull, slack), (slack, grip, wrap, mu)


def _drive_bwd(res, cts):
    slack, grip, wrap, mu = res
    tight_ct, slack_ct = cts
    both = tight_ct + slack_ct
    d_exponent = -both * slack * (1.0 + 1.0 / grip)
    d_exponent = d_exponent.reshape(-1, wrap.shape[0]).sum(0)
    return tight_ct + both / grip, d_exponent * mu, jnp.vdot(d_exponent, wrap)


drive_tensions.defvjp(_drive_fwd, _drive_bwd)


def _to_rad(angle, degrees):
    return jnp.deg2rad(angle) if degrees else angle


@functools.partial(jax.custom_jvp, nondiff_argnums=(4,))
def trough_area(usable, roll, trough, surcharge, degrees=False):
    """Load cross-section of a three-roll trough (trapezoid below, parabolic cap above)."""
    t = _to_rad(trough, degrees)
    s = _to_rad(surcharge, degrees)
    wing = 0.5 * (usable - roll)
    lower = (roll + wing * jnp.cos(t)) * wing * jnp.sin(t)
    top = roll + 2.0 * wing * jnp.cos(t)
    return lower + top * top * jnp.tan(s) / 6.0


@trough_area.defjvp
def _trough_area_jvp(degrees, primals, tangents):
    usable, roll, trough, surcharge = primals
    usable_dot, roll_dot, trough_dot, surcharge_dot = tangents
    t = _to_rad(trough, degrees)
    s = _to_rad(surcharge, degrees)
    ct, st = jnp.cos(t), jnp.sin(t)
    wing = 0.5 * (usable - roll)
    wing_dot = 0.5 * (usable_dot - roll_dot)
    top = roll + 2.0 * wing * ct
    top_dot = roll_dot + 2.0 * (wing_dot * ct - wing * st * trough_dot)

    base = roll + wing * ct
    base_dot = roll_dot + wing_dot * ct - wing * st * trough_dot
    rise, rise_dot = wing * st, wing_dot * st + wing * ct * trough_dot

    area = base * rise + top * top * jnp.tan(s) / 6.0
    area_dot = (
        base_dot * rise
        + base * rise_dot
        + top * top_dot * jnp.tan(s) / 3.0
        + top * top * surcharge_dot / (6.0 * jnp.cos(s) ** 2)
    )
    return area, area_dot


@jax.custom_vjp
def station_tension(tail, load, lengths, incline, drag):
    # tail [...], load [..., K] kg/m, lengths [K], incline [K] rad, drag scalar
    rise = drag * jnp.cos(incline) + jnp.sin(incline)
    return tail[..., None] + jnp.cumsum(G * load * lengths * rise, axis=-1)


def _station_fwd(tail, load, lengths, incline, drag):
    return station_tension(tail, load, lengths, incline, drag), (load, lengths, incline, drag)


def _station_bwd(res, g):
    load, lengths, incline, drag = res
    cos, sin = jnp.cos(incline), jnp.sin(incline)
    rise = drag * cos + sin
    tail_to_head = jnp.flip(jnp.cumsum(jnp.flip(g, -1), axis=-1), -1)
    d_load = G * tail_to_head * lengths * rise
    along = (G * tail_to_head * load).reshape(-1, lengths.shape[0]).sum(0)
    return (
        g.sum(-1),
        d_load,
        along * rise,
        along * lengths * (cos - drag * sin),
        jnp.vdot(along * lengths, cos),
    )


station_tension.defvjp(_station_fwd, _station_bwd)


def required_power(tail, load, lengths, incline, drag, speed):
    return speed * (station_tension(tail, load, lengths, incline, drag)[..., -1] - tail)
