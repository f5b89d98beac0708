"""Lake and catchment process terms.

Everything here is elementwise or small-matrix algebra called inside a scan over days, so the
derivatives are written out by hand to keep the traced program short.
"""
import jax
import jax.numpy as jnp


@jax.custom_vjp
def competition_rates(n, r, k, a):
    return r * n * (1.0 - (n @ a.T) / k)


def _comp_fwd(n, r, k, a):
    load = n @ a.T
    return r * n * (1.0 - load / k), (n, r, k, a, load)


def _comp_bwd(res, g):
    n, r, k, a, load = res
    q = g * r * n / k
    free = 1.0 - load / k
    gn = g * r * free - q @ a.T
    gr = (g * n * free).reshape(-1, r.size).sum(0)
    gk = (q * load / k).reshape(-1, k.size).sum(0)
    ga = -jnp.einsum("bi,bj->ij", q.reshape(-1, r.size), n.reshape(-1, r.size))
    return gn, gr, gk, ga


competition_rates.defvjp(_comp_fwd, _comp_bwd)


def grow(n0, params, dt, steps):
    def body(n, _):
        n = n + dt * competition_rates(n, params["r"], params["k"], params["a"])
        return n, n
    return jax.lax.scan(body, n0, None, length=steps)


@jax.custom_jvp
def andrews_growth(s, mu_max, ks, ki):
    """Specific growth rate with substrate inhibition (Andrews / Haldane).

    mu = mu_max * s / (ks + s + s**2 / ki)

    The rate rises from zero, peaks at s = sqrt(ks * ki) and declines above it.

    Args:
        s: Substrate concentration, >= 0, any shape.
        mu_max: Maximum specific rate, scalar or broadcastable to ``s``.
        ks: Half-saturation constant, > 0.
        ki: Inhibition constant, > 0.

    Returns:
        The rate, in the units of ``mu_max`` and the broadcast shape of all arguments.
    """
    return mu_max * s / (ks + s + s * s / ki)


@andrews_growth.defjvp
def _andrews_jvp(primals, tangents):
    s, mu_max, ks, ki = primals
    ds, dmu, dks, dki = tangents
    den = ks + s + s * s / ki
    frac = s / den
    out = mu_max * frac
    slope = (ks - s * s / ki) / den**2
    dout = (
        frac * dmu
        + mu_max * slope * ds
        - mu_max * frac / den * dks
        + mu_max * frac * (s / ki) ** 2 / den * dki
    )
    return out, dout


@jax.custom_jvp
def hargreaves_et0(ra, tmax, tmin, tmean=None):
    """Hargreaves reference evapotranspiration (mm/day); tmean falls back to the midrange of tmax > tmin."""
    t = 0.5 * (tmax + tmin) if tmean is None else tmean
    return 0.0023 * ra * (t + 17.8) * jnp.sqrt(tmax - tmin)


@hargreaves_et0.defjvp
def _hargreaves_jvp(primals, tangents):
    ra, tmax, tmin, tmean = primals
    dra, dtmax, dtmin, dtmean = tangents
    t = 0.5 * (tmax + tmin) if tmean is None else tmean
    root = jnp.sqrt(tmax - tmin)
    out = 0.0023 * ra * (t + 17.8) * root
    dout = 0.0023 * (t + 17.8) * (root * dra + ra * 0.5 / root * (dtmax - dtmin))
    if dtmean is not None:
        dout = dout + 0.0023 * ra * root * dtmean
    return out, dout


def _season_bracket(t, m):
    base = jnp.floor(t)
    lo = jnp.mod(base.astype(jnp.int32), m)
    return lo, jnp.mod(lo + 1, m), t - base


# clim: months x sites, t in months
@jax.custom_vjp
def seasonal_interp(clim, t):
    lo, hi, w = _season_bracket(t, clim.shape[0])
    return clim[lo] + w[:, None] * (clim[hi] - clim[lo])


def _seasonal_fwd(clim, t):
    return seasonal_interp(clim, t), (clim, t)


def _seasonal_bwd(res, g):
    clim, t = res
    lo, hi, w = _season_bracket(t, clim.shape[0])
    w = w[:, None]
    gc = jnp.zeros_like(clim).at[lo].add((1 - w) * g).at[hi].add(w * g)
    gt = jnp.sum(g * (clim[hi] - clim[lo]), axis=1)
    return gc, gt


seasonal_interp.defvjp(_seasonal_fwd, _seasonal_bwd)
