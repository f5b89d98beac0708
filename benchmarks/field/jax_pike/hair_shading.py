# Far-field hair fibre scattering (R, TT, TRT) for the strand fitter.

from functools import partial

import jax
import jax.numpy as jnp

R, TT, TRT = 0, 1, 2
TILT = (-1.0, 0.5, 1.5)  # cuticle tilt seen by each lobe
SPREAD = (1.0, 0.5, 2.0)  # roughness seen by each lobe
EUMELANIN = (0.419, 0.697, 1.37)
PHEOMELANIN = (0.187, 0.4, 1.05)
TWO_PI = 2.0 * jnp.pi


def wrap(phi):
    return phi - TWO_PI * jnp.round(phi / TWO_PI)


def unbroadcast(ct, like):
    extra = ct.ndim - jnp.ndim(like)
    ct = ct.sum(axis=tuple(range(extra))) if extra else ct
    axes = tuple(i for i, n in enumerate(jnp.shape(like)) if n == 1 and ct.shape[i] != 1)
    return ct.sum(axis=axes, keepdims=True) if axes else ct


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def longitudinal_lobe(
    theta_i,  # incident inclination, radians, (n,)
    theta_o,  # outgoing inclination, radians, (n,)
    alpha,  # cuticle tilt, radians, (n,) or ()
    beta,  # longitudinal roughness, radians, (n,) or (), > 0
    lobe=R,  # R, TT or TRT
):
    half = 0.5 * (theta_i + theta_o)
    b = SPREAD[lobe] * beta
    d = half - TILT[lobe] * alpha
    return jnp.exp(-0.5 * (d / b) ** 2) / (b * jnp.sqrt(TWO_PI))


@longitudinal_lobe.defjvp
def _longitudinal_jvp(lobe, primals, tangents):
    theta_i, theta_o, alpha, beta = primals
    ti, to, ta, tb = tangents
    m = longitudinal_lobe(theta_i, theta_o, alpha, beta, lobe)
    b = SPREAD[lobe] * beta
    d = 0.5 * (theta_i + theta_o) - TILT[lobe] * alpha
    td = 0.5 * (ti + to) - TILT[lobe] * ta
    return m, m * (-d * td / b**2 + (d * d / b**3 - 1.0 / b) * tb)


@jax.custom_vjp
def azimuthal_logistic(
    phi,  # azimuth difference, any real number of radians
    centre,  # exit azimuth of the specular path, broadcasts against phi
    s,  # logistic scale > 0, broadcasts against phi
):
    x = wrap(phi - centre)
    return jax.nn.sigmoid(x / s) * jax.nn.sigmoid(-x / s) / (s * jnp.tanh(jnp.pi / (2.0 * s)))


def _azimuthal_fwd(phi, centre, s):
    n = azimuthal_logistic(phi, centre, s)
    return n, (phi, centre, s, n)


def _azimuthal_bwd(res, g):
    phi, centre, s, n = res
    x = wrap(phi - centre)
    slope = jnp.tanh(0.5 * x / s)
    trim = jnp.tanh(0.5 * jnp.pi / s)
    gx = -g * n * slope / s
    gs = g * n * ((x * slope + 0.5 * jnp.pi * (1.0 / trim - trim)) / s - 1.0) / s
    return unbroadcast(gx, phi), -unbroadcast(gx, centre), unbroadcast(gs, s)


azimuthal_logistic.defvjp(_azimuthal_fwd, _azimuthal_bwd)


def _interior(h, theta, eta):
    s, c = jnp.sin(theta), jnp.cos(theta)
    root = jnp.sqrt(eta**2 - s**2)
    cos_t = root / eta  # inclination inside the fibre
    eta_p = root / c  # Bravais index
    sin_g = h / eta_p
    cos_g = jnp.sqrt(1.0 - sin_g**2)
    return s, c, root, cos_t, eta_p, sin_g, cos_g


@jax.custom_jvp
def fibre_transmittance(
    h,  # offset across the fibre, (-1, 1), (n,)
    theta,  # inclination, (-pi/2, pi/2), (n,)
    sigma_a,  # absorption per radius, (3,) or (n, 3)
    eta,  # refractive index > 1, ()
):
    *_, cos_t, _, _, cos_g = _interior(h, theta, eta)
    return jnp.exp(-sigma_a * (2.0 * cos_g / cos_t)[..., None])


@fibre_transmittance.defjvp
def _transmittance_jvp(primals, tangents):
    h, theta, sigma_a, eta = primals
    th, tt, ts, te = tangents
    s, c, root, cos_t, eta_p, sin_g, cos_g = _interior(h, theta, eta)
    path = 2.0 * cos_g / cos_t
    out = jnp.exp(-sigma_a * path[..., None])
    t_eta_p = eta * te / (root * c)
    t_sin_g = (th - sin_g * t_eta_p) / eta_p
    t_cos_g = -sin_g * t_sin_g / cos_g
    t_cos_t = (s * s * te / eta - s * c * tt) / (eta * root)
    t_path = 2.0 * t_cos_g / cos_t - path * t_cos_t / cos_t
    return out, -out * (ts * path[..., None] + sigma_a * t_path[..., None])


def melanin_absorption(amount, redness):
    """(n,) pigment amount and redness in [0, 1] -> (n, 3) absorption."""
    eu = amount * (1.0 - redness)
    pheo = amount * redness
    return eu[:, None] * jnp.array(EUMELANIN) + pheo[:, None] * jnp.array(PHEOMELANIN)


def fresnel_schlick(cos_i, eta):
    f0 = ((eta - 1.0) / (eta + 1.0)) ** 2
    return f0 + (1.0 - f0) * (1.0 - cos_i) ** 5


def shade(params, theta_i, theta_o, phi, h):
    # theta_i, theta_o, phi, h: (n,); params: amount (n,), redness (n,), tilt, rough, scale, eta ()
    _, _, _, _, eta_p, sin_g, _ = _interior(h, theta_i, params["eta"])
    gamma_i, gamma_t = jnp.arcsin(h), jnp.arcsin(sin_g)
    sigma = melanin_absorption(params["amount"], params["redness"])
    trans = fibre_transmittance(h, theta_i, sigma, params["eta"])
    f = fresnel_schlick(jnp.cos(theta_i) * jnp.cos(gamma_i), params["eta"])[:, None]
    weights = (f, (1.0 - f) ** 2 * trans, (1.0 - f) ** 2 * f * trans**2)
    total = 0.0
    for p in (R, TT, TRT):
        centre = 2.0 * p * gamma_t - 2.0 * gamma_i + p * jnp.pi
        m = longitudinal_lobe(theta_i, theta_o, params["tilt"], params["rough"], p)
        n = azimuthal_logistic(phi, centre, params["scale"])
        total = total + weights[p] * (m * n)[:, None]
    return total


def fit_strands(params, batch, target, lr=1e-2, steps=50):
    def loss(q):
        return jnp.mean((shade(q, *batch) - target) ** 2)

    step = jax.jit(jax.value_and_grad(loss))
    history = []
    for _ in range(steps):
        value, grads = step(params)
        params = {k: params[k] - lr * grads[k] for k in params}
        history.append(float(value))
    return params, history
