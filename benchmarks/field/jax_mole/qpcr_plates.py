import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

N_CYCLES = 40
FLOOR = 1e-12


@dataclasses.dataclass(frozen=True)
class Plate:
    rows: int = 8
    cols: int = 12
    cycles: int = N_CYCLES

    @property
    def wells(self):
        return self.rows * self.cols

    def well(self, name):
        return (ord(name[0].upper()) - ord("A")) * self.cols + int(name[1:]) - 1


def make_amplifier(cycles=N_CYCLES):
    # f[c+1] = f[c] * (1 + emax / (1 + f[c] / k)); f0 (wells,), emax () or (wells,), k ()
    def step(f, emax, k):
        return f * (1.0 + emax * k / (k + f))

    @jax.custom_gradient
    def amplify(f0, emax, k):
        def body(f, _):
            nxt = step(f, emax, k)
            return nxt, f

        last, before = lax.scan(body, f0, None, length=cycles)
        curve = jnp.concatenate([before[1:], last[None]], axis=0)

        def pull(g):
            def back(carry, x):
                lam, a_e, a_k = carry
                f, gc = x
                lam = lam + gc
                s = k / (k + f)
                a_e = a_e + lam * f * s
                a_k = a_k + lam * emax * (1.0 - s) ** 2
                return (lam * (1.0 + emax * s * s), a_e, a_k), None

            zero = jnp.zeros_like(last)
            (lam, a_e, a_k), _ = lax.scan(back, (zero, zero, zero), (before, g), reverse=True)
            return lam, jnp.sum(a_e) if jnp.ndim(emax) == 0 else a_e, jnp.sum(a_k)

        return curve, pull

    return amplify


def make_ct_reader(threshold):
    log_th = float(np.log(threshold))

    @jax.custom_gradient
    def threshold_cycle(curve):
        # curve: (cycles, wells); wells that stay below read as the number of cycles
        n, wells = curve.shape
        y = jnp.log(jnp.maximum(curve, FLOOR))
        over = y >= log_th
        reached = jnp.any(over, axis=0)
        hi = jnp.maximum(jnp.argmax(over, axis=0), 1)
        lo = hi - 1
        cols = jnp.arange(wells)
        a, b = y[lo, cols], y[hi, cols]
        rise = b - a
        frac = (log_th - a) / rise
        ct = jnp.where(reached, lo + 1 + frac, float(n))

        def pull(g):
            scale = g / rise
            out = jnp.zeros_like(curve)
            out = out.at[lo, cols].add(-(1.0 - frac) * scale)
            out = out.at[hi, cols].add(-frac * scale)
            return jnp.where(curve > FLOOR, out / jnp.maximum(curve, FLOOR), 0.0)

        return ct, pull

    return threshold_cycle


def make_quantifier(references):
    refs = jnp.asarray(references)  # (targets, r) gene numbers; the targets are genes 0 .. targets-1
    n_targets, r = refs.shape

    @jax.custom_gradient
    def relative_quantity(ct, calibrator, log_eff):
        # ct: (samples, genes), calibrator: (genes,), log_eff: (genes,) = log(1 + efficiency)
        delta = calibrator - ct
        gain = delta * log_eff
        rq = jnp.exp(gain[:, :n_targets] - jnp.mean(gain[:, refs], axis=-1))

        def pull(g):
            up = g * rq
            d_gain = jnp.zeros_like(gain)
            each = jnp.broadcast_to(up[:, :, None] / r, up.shape + (r,))
            d_gain = d_gain.at[:, refs].set(-each)
            d_gain = d_gain.at[:, :n_targets].add(up)
            d_delta = d_gain * log_eff
            return -d_delta, jnp.sum(d_delta, axis=0), jnp.sum(d_gain * delta, axis=0)

        return rq, pull

    return relative_quantity


def baseline(curve, first=3, last=12):
    return curve - jnp.mean(curve[first:last], axis=0)


def four_fold_series(top, n):
    return top * 4.0 ** -jnp.arange(n)


def efficiency_from_slope(slope):
    return 10.0 ** (-1.0 / slope) - 1.0


def fit_template(curves, threshold=0.2, steps=200, rate=1e-3):
    """Starting amounts and amplification constants from curves of shape (cycles, wells)."""
    amplify = make_amplifier(curves.shape[0])
    wells = curves.shape[1]
    theta = (jnp.full((wells,), -12.0), jnp.asarray(-0.05), jnp.asarray(0.0))

    def loss(t):
        model = amplify(jnp.exp(t[0]), jnp.exp(t[1]), jnp.exp(t[2]))
        return jnp.mean((model - curves) ** 2)

    grad = jax.jit(jax.grad(loss))
    for _ in range(steps):
        theta = jax.tree.map(lambda p, d: p - rate * d, theta, grad(theta))
    return theta, make_ct_reader(threshold)(curves)


def panel_fold_change(ct_table):
    # 3 targets, 2 housekeeping genes (3, 4)
    quantify = make_quantifier([[3, 4], [3, 4], [4, 3]])
    cal = ct_table[0]
    return quantify(ct_table[1:], cal, jnp.full(cal.shape, jnp.log(1.95)))
