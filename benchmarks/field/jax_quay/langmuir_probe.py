from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

QE = 1.602176634e-19
ME = 9.1093837015e-31
AMU = 1.66053906660e-27

# volts and electron-volts throughout; currents in mA; te > 0, ies > iis > 0


def bohm_ratio(mass_amu):
    return jnp.sqrt(mass_amu * AMU / (2.0 * jnp.pi * ME)) / 0.61


@partial(jax.custom_jvp, nondiff_argnums=(4,))
def electron_current(v, vp, te, ies, expansion=0.08):
    x = (v - vp) / te
    return ies * jnp.where(x < 0, jnp.exp(jnp.minimum(x, 0.0)), 1.0 + expansion * x)


@electron_current.defjvp
def _electron_current_jvp(expansion, primals, tangents):
    v, vp, te, ies = primals
    dv, dvp, dte, dies = tangents
    x = (v - vp) / te
    dx = (dv - dvp - x * dte) / te
    boltz = jnp.exp(jnp.minimum(x, 0.0))
    slope = jnp.where(x < 0, boltz, expansion)
    return electron_current(v, vp, te, ies, expansion), ies * slope * dx + boltz * dies


def ion_current(v, vp, te, iis, k):
    u = jnp.maximum(vp - v, 0.0) / te
    return -iis * (1.0 + k * jnp.sqrt(u + 1e-12))


def _drop(ratio, k):
    # s**2 + log1p(k s) = log(ies / iis)
    goal = jnp.log(ratio)

    def newton(_, s):
        f = s * s + jnp.log1p(k * s) - goal
        return jnp.maximum(s - f / (2.0 * s + k / (1.0 + k * s)), 1e-9)

    return lax.fori_loop(0, 60, newton, jnp.sqrt(goal) + 0.0 * k)


@jax.custom_jvp
def floating_potential(vp, te, ies, iis, k):
    return vp - te * _drop(ies / iis, k) ** 2


@floating_potential.defjvp
def _floating_potential_jvp(primals, tangents):
    vp, te, ies, iis, k = primals
    dvp, dte, dies, diis, dk = tangents
    s = _drop(ies / iis, k)
    rhs = dies / ies - diis / iis - s / (1.0 + k * s) * dk
    du = rhs / (1.0 + k / (2.0 * s * (1.0 + k * s)))
    return vp - te * s * s, dvp - s * s * dte - te * du


@jax.custom_jvp
def double_probe(v, isat, te, area_ratio):
    # the smaller electrode collects -isat far below zero and isat / area_ratio far above
    t = jnp.exp(-jnp.abs(v / te))
    up = (1.0 - t) / (t + area_ratio)
    down = (t - 1.0) / (1.0 + area_ratio * t)
    return isat * jnp.where(v > 0, up, down)


@double_probe.defjvp
def _double_probe_jvp(primals, tangents):
    v, isat, te, r = primals
    dv, disat, dte, dr = tangents
    x = v / te
    t = jnp.exp(-jnp.abs(x))
    up = x > 0
    bottom = jnp.where(up, t + r, 1.0 + r * t)
    q = jnp.where(up, 1.0 - t, t - 1.0) / bottom
    dx = (dv - x * dte) / te
    dq = t * (1.0 + r) / bottom ** 2 * dx - q * jnp.where(up, 1.0, t) / bottom * dr
    return isat * q, q * disat + isat * dq


def sweep(theta, v):
    te, ies = jnp.exp(theta["log_te"]), jnp.exp(theta["log_ies"])
    iis = ies / bohm_ratio(theta["mass"])
    return electron_current(v, theta["vp"], te, ies) + ion_current(v, theta["vp"], te, iis, theta["k"])


def fit(v, current, theta, steps=400, rate=2e-4):
    def misfit(free):
        full = {**theta, **free}
        return jnp.mean((sweep(full, v) - current) ** 2)

    free = {n: theta[n] for n in ("log_te", "log_ies", "vp")}
    step = jax.jit(jax.value_and_grad(misfit))
    for _ in range(steps):
        _, g = step(free)
        free = jax.tree.map(lambda p, d: p - rate * d, free, g)
    return {**theta, **free}


def main():
    v = jnp.linspace(-40.0, 25.0, 131)
    truth = {"log_te": jnp.log(3.2), "log_ies": jnp.log(42.0), "vp": 11.0, "mass": 39.95, "k": 0.2}
    start = {**truth, "log_te": jnp.log(2.5), "vp": 9.0}
    got = fit(v, sweep(truth, v), start)
    te, ies = jnp.exp(got["log_te"]), jnp.exp(got["log_ies"])
    shots = jnp.array([[2.0], [3.0], [4.5]])              # te of three shots
    pair = double_probe(v, 1.5, shots, jnp.array(1.8))    # [3, 131]
    vf = floating_potential(got["vp"], te, ies, ies / bohm_ratio(39.95), 0.2)
    print(te, vf, pair.shape)


if __name__ == "__main__":
    main()
