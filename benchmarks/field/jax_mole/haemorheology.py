"""Blood as a suspension: constitutive law, microvessel viscosity, bifurcations."""
from functools import partial

import jax
import jax.numpy as jnp

H_REFERENCE = 0.45
GLYCOCALYX = 1.1       # um
SERIES_BELOW = 0.1


@jax.custom_jvp
def casson_stress(
    shear_rate,      # 1/s, signed, any shape
    yield_stress,    # Pa, > 0, broadcasts against shear_rate
    viscosity,       # Pa s, > 0, idem
    growth=100.0,    # s, Papanastasiou exponent
):
    # sqrt(tau) = sqrt(mu |g|) + sqrt(tau_y) (1 - exp(-sqrt(m |g|))), odd in g
    size = jnp.abs(shear_rate)
    root = jnp.sqrt(viscosity * size) + jnp.sqrt(yield_stress) * -jnp.expm1(-jnp.sqrt(growth * size))
    return jnp.sign(shear_rate) * root ** 2


@casson_stress.defjvp
def _casson_jvp(primals, tangents):
    g, ty, mu, m = primals
    dg, dty, dmu, dm = tangents
    size = jnp.maximum(jnp.abs(g), 1e-30)
    side = jnp.sign(g)
    ramp = jnp.sqrt(m * size)
    built = -jnp.expm1(-ramp)
    root = jnp.sqrt(mu * size) + jnp.sqrt(ty) * built
    tau = side * root ** 2
    # root / sqrt(size) has a limit at rest, the two factors have not
    lean = root / jnp.sqrt(size)
    slope = lean * (jnp.sqrt(mu) + jnp.sqrt(ty * m) * jnp.exp(-ramp))
    by_yield = root * built / jnp.sqrt(ty)
    by_viscosity = side * root * jnp.sqrt(size / mu)
    by_growth = side * root * jnp.sqrt(ty * size / m) * jnp.exp(-ramp)
    return tau, slope * dg + by_yield * dty + by_viscosity * dmu + by_growth * dm


def _log_phi_slope(x):
    # of log(expm1(x) / x)
    small = jnp.abs(x) < SERIES_BELOW
    far = jnp.where(small, 1.0, x)
    near = jnp.where(small, x, 0.0)
    series = 0.5 + near / 12 - near ** 3 / 720 + near ** 5 / 30240
    return jnp.where(small, series, -1.0 / jnp.expm1(-far) - 1.0 / far)


def _phi(x):
    return jnp.where(x == 0, 1.0, jnp.expm1(x) / jnp.where(x == 0, 1.0, x))


def _shape_exponent(d):
    wall = 1.0 / (1.0 + 1e-11 * d ** 12)
    return (0.8 + jnp.exp(-0.075 * d)) * (wall - 1.0) + wall


def _reference_viscosity(d, kind):
    bulk = 3.2 - 2.44 * jnp.exp(-0.06 * d ** 0.645)
    if kind == "vitro":
        return 220.0 * jnp.exp(-1.3 * d) + bulk
    if kind == "vivo":
        return 6.0 * jnp.exp(-0.085 * d) + bulk
    raise ValueError(f"kind must be 'vitro' or 'vivo', not {kind!r}")


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def apparent_viscosity(
    diameter,      # um, > 3
    haematocrit,   # discharge haematocrit, 0 to 0.8, shape broadcasts
    kind="vivo",   # "vitro": glass tubes; "vivo": with the endothelial layer
):
    ratio = _haematocrit_ratio(diameter, haematocrit)
    excess = (_reference_viscosity(diameter, kind) - 1.0) * ratio
    if kind == "vitro":
        return 1.0 + excess
    squeeze = (diameter / (diameter - GLYCOCALYX)) ** 2
    return (1.0 + excess * squeeze) * squeeze


def _haematocrit_ratio(d, h):
    c = _shape_exponent(d)
    a, b = jnp.log1p(-h), jnp.log1p(-H_REFERENCE)
    return a / b * _phi(c * a) / _phi(c * b)


@apparent_viscosity.defjvp
def _apparent_viscosity_jvp(kind, primals, tangents):
    d, h = primals
    dd, dh = tangents
    a, b = jnp.log1p(-h), jnp.log1p(-H_REFERENCE)
    damp = jnp.exp(-0.075 * d)
    wall = 1.0 / (1.0 + 1e-11 * d ** 12)
    dwall = -12e-11 * d ** 11 * wall ** 2
    c = _shape_exponent(d)
    dc = -0.075 * damp * (wall - 1.0) + (1.8 + damp) * dwall
    ratio = _haematocrit_ratio(d, h)
    ratio_d = ratio * (a * _log_phi_slope(c * a) - b * _log_phi_slope(c * b)) * dc
    ratio_h = -jnp.exp((c - 1.0) * a) / (b * _phi(c * b))

    mu45 = _reference_viscosity(d, kind)
    dmu45 = 2.44 * 0.06 * 0.645 * d ** -0.355 * jnp.exp(-0.06 * d ** 0.645)
    if kind == "vitro":
        dmu45 = dmu45 - 286.0 * jnp.exp(-1.3 * d)
    else:
        dmu45 = dmu45 - 0.51 * jnp.exp(-0.085 * d)

    excess = (mu45 - 1.0) * ratio
    excess_t = (dmu45 * ratio + (mu45 - 1.0) * ratio_d) * dd + (mu45 - 1.0) * ratio_h * dh
    if kind == "vitro":
        return 1.0 + excess, excess_t
    squeeze = (d / (d - GLYCOCALYX)) ** 2
    squeeze_t = -2.0 * GLYCOCALYX * d / (d - GLYCOCALYX) ** 3 * dd
    out = (1.0 + excess * squeeze) * squeeze
    return out, excess_t * squeeze ** 2 + (1.0 + 2.0 * excess * squeeze) * squeeze_t


def _skimming(h, d_parent, d_this, d_other):
    thin = (1.0 - h) / d_parent
    share = d_this ** 2 / d_other ** 2
    return -13.29 * (share - 1.0) / (share + 1.0) * thin, 1.0 + 6.98 * thin, 0.964 * thin


@jax.custom_jvp
def phase_split(
    flow_share,   # part of the parent's blood that enters this daughter, 0 to 1
    h,            # parent's discharge haematocrit
    d_parent,     # um
    d_this,       # um
    d_other,      # um
):
    """Part of the parent's red cells entering the daughter (0 or 1 past the thresholds)."""
    a, b, x0 = _skimming(h, d_parent, d_this, d_other)
    u = (flow_share - x0) / (1.0 - 2.0 * x0)
    inside = (u > 0.0) & (u < 1.0)
    v = jnp.where(inside, u, 0.5)
    cells = jax.nn.sigmoid(a + b * (jnp.log(v) - jnp.log1p(-v)))
    return jnp.where(inside, cells, jnp.where(u <= 0.0, 0.0, 1.0))


@phase_split.defjvp
def _phase_split_jvp(primals, tangents):
    flow_share, h, d_parent, d_this, d_other = primals
    dx, dh, dp, d1, d2 = tangents
    a, b, x0 = _skimming(h, d_parent, d_this, d_other)
    u = (flow_share - x0) / (1.0 - 2.0 * x0)
    inside = (u > 0.0) & (u < 1.0)
    v = jnp.where(inside, u, 0.5)
    logit = jnp.log(v) - jnp.log1p(-v)
    cells = jax.nn.sigmoid(a + b * logit)

    thin_t = -dh / d_parent - (1.0 - h) / d_parent ** 2 * dp
    thin = (1.0 - h) / d_parent
    share = d_this ** 2 / d_other ** 2
    share_t = 2.0 * share * (d1 / d_this - d2 / d_other)
    a_t = -13.29 * ((share - 1.0) / (share + 1.0) * thin_t + 2.0 / (share + 1.0) ** 2 * share_t * thin)
    b_t = 6.98 * thin_t
    v_t = dx / (1.0 - 2.0 * x0)
    arg_t = a_t + b_t * logit + b * v_t / (v * (1.0 - v))
    out = jnp.where(inside, cells, jnp.where(u <= 0.0, 0.0, 1.0))
    return out, jnp.where(inside, cells * (1.0 - cells) * arg_t, 0.0)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def discharge_mean(
    values,           # quantity carried, e.g. haematocrit of every vessel
    flow,             # positive, broadcasts to the shape of values
    axis=-1,          # int or tuple
    keepdims=False,
):
    return jnp.sum(values * flow, axis, keepdims=keepdims) / _total(values, flow, axis, keepdims)


def _total(values, flow, axis, keepdims):
    return jnp.sum(jnp.broadcast_to(flow, values.shape), axis, keepdims=keepdims)


@discharge_mean.defjvp
def _discharge_mean_jvp(axis, keepdims, primals, tangents):
    values, flow = primals
    dv, df = tangents
    mean = discharge_mean(values, flow, axis, True)
    lift = jnp.sum(flow * dv + (values - mean) * df, axis, keepdims=keepdims)
    out = discharge_mean(values, flow, axis, keepdims)
    return out, lift / _total(values, flow, axis, keepdims)


def tree_resistance(diameter, length, haematocrit, kind="vivo"):
    """Poiseuille resistance of vessels (um, um) in Pa s / um^3, plasma at 1.2 mPa s."""
    mu = 1.2e-3 * apparent_viscosity(diameter, haematocrit, kind)
    return 128.0 * mu * length / (jnp.pi * diameter ** 4)


def daughter_haematocrits(h, share, d_parent, d1, d2):
    cells = phase_split(share, h, d_parent, d1, d2)
    return h * cells / share, h * (1.0 - cells) / (1.0 - share)
