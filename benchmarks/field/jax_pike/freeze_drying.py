import functools

import jax
import jax.numpy as jnp

HEAT_SUBL = 676.0  # cal / g
AREA_VIAL = 3.80  # cm2, outer
AREA_PRODUCT = 3.14  # cm2, inner
RHO_ICE = 0.918
POROSITY = 0.95
HOUR = 3600.0

VIAL = {"kv_c": 2.75e-4, "kv_p": 8.93e-4, "kv_d": 0.46, "r0": 1.4, "a1": 16.0, "a2": 0.5}


def ice_pressure(temp):
    return 2.698e10 * jnp.exp(-6144.96 / temp)  # Torr


def vial_coefficient(p_chamber, vial=VIAL):
    return vial["kv_c"] + vial["kv_p"] * p_chamber / (1.0 + vial["kv_d"] * p_chamber)


def cake_resistance(depth, vial=VIAL):
    return vial["r0"] + vial["a1"] * depth / (1.0 + vial["a2"] * depth)


def _reduce_to(x, shape):
    x = jnp.sum(x, axis=tuple(range(x.ndim - len(shape))))
    keep = tuple(i for i, (a, b) in enumerate(zip(x.shape, shape)) if b == 1 and a > 1)
    return jnp.sum(x, axis=keep, keepdims=True) if keep else x


def _balance(temp, shelf, kv, p_chamber, r_p):
    heat = HOUR * kv * AREA_VIAL * (shelf - temp)
    return heat - HEAT_SUBL * AREA_PRODUCT * (ice_pressure(temp) - p_chamber) / r_p


@jax.custom_vjp
def front_temperature(shelf, kv, p_chamber, r_p):
    # shelf must be warm enough to sublime: ice_pressure(shelf) > p_chamber
    shape = jnp.broadcast_shapes(*(jnp.shape(a) for a in (shelf, kv, p_chamber, r_p)))
    hi = jnp.broadcast_to(shelf, shape) + 0.0
    lo = jnp.full_like(hi, 150.0)

    def halve(_, box):
        lo, hi = box
        mid = 0.5 * (lo + hi)
        cold = _balance(mid, shelf, kv, p_chamber, r_p) > 0
        return jnp.where(cold, mid, lo), jnp.where(cold, hi, mid)

    lo, hi = jax.lax.fori_loop(0, 60, halve, (lo, hi))
    return 0.5 * (lo + hi)


def _front_fwd(shelf, kv, p_chamber, r_p):
    temp = front_temperature(shelf, kv, p_chamber, r_p)
    return temp, (temp, shelf, kv, p_chamber, r_p)


def _front_bwd(res, g):
    temp, shelf, kv, p_chamber, r_p = res
    p_ice = ice_pressure(temp)
    latent = HEAT_SUBL * AREA_PRODUCT / r_p
    film = HOUR * AREA_VIAL
    lam = g / (film * kv + latent * p_ice * 6144.96 / temp**2)
    grads = (
        lam * film * kv,
        lam * film * (shelf - temp),
        lam * latent,
        lam * latent * (p_ice - p_chamber) / r_p,
    )
    return tuple(_reduce_to(d, jnp.shape(a)) for d, a in zip(grads, res[1:]))


front_temperature.defvjp(_front_fwd, _front_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def glass_transition(weights, tg, k, axis=-1):
    # Gordon-Taylor over any number of excipients; the weights need not add up to one
    w = jnp.moveaxis(weights, axis, -1)
    return (w * k) @ tg / (w @ k)


def _glass_fwd(weights, tg, k, axis):
    out = glass_transition(weights, tg, k, axis)
    return out, (weights, tg, k, out)


def _glass_bwd(axis, res, g):
    weights, tg, k, out = res
    w = jnp.moveaxis(weights, axis, -1)
    share = (g / (w @ k))[..., None]
    lift = tg - out[..., None]
    n = tg.shape[0]
    d_tg = (share * w * k).reshape(-1, n).sum(0)
    d_k = (share * w * lift).reshape(-1, n).sum(0)
    return jnp.moveaxis(share * k * lift, -1, axis), d_tg, d_k


glass_transition.defvjp(_glass_fwd, _glass_bwd)


@jax.custom_vjp
def dried_depth(flux, steps, start):
    # trapezoid through the logged fluxes; the logger writes when it likes, so steps vary
    area = 0.5 * (flux[:, 1:] + flux[:, :-1]) * steps
    grown = jnp.cumsum(area, axis=1)
    return start[:, None] + jnp.pad(grown, ((0, 0), (1, 0)))


def _depth_fwd(flux, steps, start):
    return dried_depth(flux, steps, start), (flux, steps)


def _depth_bwd(res, g):
    flux, steps = res
    later = jnp.cumsum(g[:, :0:-1], axis=1)[:, ::-1]
    d_steps = jnp.sum(later * 0.5 * (flux[:, 1:] + flux[:, :-1]), axis=0)
    width = jnp.append(steps, steps[-1])
    both = jnp.pad(later, ((0, 0), (0, 1))) + jnp.pad(later, ((0, 0), (1, 0)))
    return 0.5 * width * both, d_steps, jnp.sum(g, axis=1)


dried_depth.defvjp(_depth_fwd, _depth_bwd)


def sublimation_flux(temp, p_chamber, r_p):
    """cm of cake per hour"""
    return (ice_pressure(temp) - p_chamber) / (r_p * RHO_ICE * POROSITY)


def collapse_margin(recipe, depth):
    # recipe: shelf (n_vial, n_time) K, p_chamber () Torr; depth (n_vial, n_time) cm
    r_p = cake_resistance(depth)
    temp = front_temperature(
        recipe["shelf"], vial_coefficient(recipe["p_chamber"]), recipe["p_chamber"], r_p
    )
    limit = glass_transition(recipe["weights"], recipe["tg"], recipe["k"])
    return jnp.min(limit[:, None] - temp, axis=1)


def simulate(recipe, steps, sweeps=4):
    """Picard sweeps between depth and front temperature for a tray of vials."""
    shelf = recipe["shelf"]
    depth = jnp.zeros_like(shelf)
    kv = vial_coefficient(recipe["p_chamber"])
    for _ in range(sweeps):
        r_p = cake_resistance(depth)
        temp = front_temperature(shelf, kv, recipe["p_chamber"], r_p)
        flux = sublimation_flux(temp, recipe["p_chamber"], r_p)
        depth = dried_depth(flux, steps, jnp.zeros(shelf.shape[0]))
    return depth, temp


def main(n_vial=6, n_time=9):
    key = jax.random.PRNGKey(0)
    recipe = {
        "shelf": 255.0 + 5.0 * jax.random.uniform(key, (n_vial, n_time)),
        "p_chamber": jnp.asarray(0.1),
        "weights": jnp.tile(jnp.array([0.7, 0.2, 0.1]), (n_vial, 1)),
        "tg": jnp.array([241.0, 253.0, 262.0]),
        "k": jnp.array([1.0, 0.6, 0.3]),
    }
    depth, _ = simulate(recipe, jnp.linspace(0.2, 1.0, n_time - 1))
    print("depth", depth[:, -1], "margin", collapse_margin(recipe, depth))


if __name__ == "__main__":
    main()
