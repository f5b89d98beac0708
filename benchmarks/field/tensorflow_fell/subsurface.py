"""Forward operators for the reservoir project: IP, seismic gathers, gas PVT."""

from __future__ import annotations

from typing import Callable, Sequence

import numpy as np
import tensorflow as tf


# --------------------------------------------------------------------------
# induced polarisation
# --------------------------------------------------------------------------


def _onto_real(upstream: tf.Tensor, jac: tf.Tensor) -> tf.Tensor:
    """Pull a complex cotangent [B, F] back to a real parameter [B]."""
    return tf.reduce_sum(tf.math.real(upstream * jac), axis=-1)


def cole_cole_resistivity(
    rho0: tf.Tensor, chargeability: tf.Tensor, tau: tf.Tensor, c: tf.Tensor, freq: Sequence[float]
) -> tf.Tensor:
    """Complex resistivity of the Pelton (Cole-Cole) model.

    rho(w) = rho0 * (1 - m * (1 - 1 / (1 + (i w tau)^c)))

    Args:
        rho0: DC resistivity in ohm m, shape [B].
        chargeability: m in [0, 1), shape [B].
        tau: relaxation time in s, shape [B].
        c: frequency exponent in (0, 1], shape [B].
        freq: survey frequencies in Hz, length F, positive.

    Returns:
        complex tensor [B, F].
    """
    cdtype = tf.complex128 if rho0.dtype == tf.float64 else tf.complex64
    log_w = tf.math.log(2.0 * np.pi * tf.constant(freq, rho0.dtype))[None, :]

    @tf.custom_gradient
    def model(rho0, m, tau, c):
        # log(i w tau)
        log_wt = log_w + tf.math.log(tau)[:, None]
        log_iwt = tf.complex(log_wt, tf.fill(log_wt.shape, tf.constant(np.pi / 2, tau.dtype)))
        cc = tf.cast(c, cdtype)[:, None]
        power = tf.exp(cc * log_iwt)
        relax = 1.0 / (1.0 + power)
        r, mm = tf.cast(rho0, cdtype)[:, None], tf.cast(m, cdtype)[:, None]
        shape = 1.0 - mm * (1.0 - relax)

        def grad(upstream):
            d_log = -r * mm * relax * relax * power
            return (
                _onto_real(upstream, shape),
                _onto_real(upstream, -r * (1.0 - relax)),
                _onto_real(upstream, d_log * cc) / tau,
                _onto_real(upstream, d_log * log_iwt),
            )

        return r * shape, grad

    return model(rho0, chargeability, tau, c)


# --------------------------------------------------------------------------
# seismic gathers
# --------------------------------------------------------------------------


def make_nmo_corrector(
    dt: float, offsets: Sequence[float], stretch_limit: float | None = 0.5
) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Normal moveout correction on a fixed acquisition.

    Every output sample (offset x, zero-offset time t0) is read, with linear
    interpolation, from the input at ``sqrt(t0**2 + (x / v(t0))**2)``. Samples
    that would come from beyond the record are zero, and so are those stretched
    by more than `stretch_limit` (None: no mute). The mute is piecewise constant
    and has no gradient of its own.

    Returns a function ``nmo(gather, velocity)`` with ``gather`` [B, H, T] and
    ``velocity`` [T] or [B, T] (m/s, positive), giving [B, H, T].
    """
    offsets = np.asarray(offsets, dtype=np.float64)

    @tf.custom_gradient
    def nmo(gather, velocity):
        dtype = gather.dtype
        batch, traces, samples = gather.shape
        x = tf.constant(offsets / dt, dtype)[None, :, None]
        k0 = tf.range(samples, dtype=dtype)[None, None, :]
        vel = velocity if velocity.shape.rank == 2 else velocity[None, :]
        v = tf.broadcast_to(vel, [batch, samples])[:, None, :]
        slow2 = tf.square(x / v)
        pos = tf.sqrt(tf.square(k0) + slow2)
        keep = pos <= samples - 1
        if stretch_limit is not None:
            keep &= (pos - k0) <= stretch_limit * k0
        live = tf.cast(keep, dtype)
        lo = tf.minimum(tf.cast(tf.floor(tf.minimum(pos, samples - 1.0)), tf.int32), samples - 2)
        frac = (pos - tf.cast(lo, dtype)) * live
        left = tf.gather(gather, lo, axis=2, batch_dims=2)
        right = tf.gather(gather, lo + 1, axis=2, batch_dims=2)
        out = live * ((1.0 - frac) * left + frac * right)

        def grad(dy):
            dy = dy * live
            row = tf.reshape(tf.range(batch * traces), [batch, traces, 1]) * samples
            cell = row + lo
            size = batch * traces * samples
            d_gather = tf.math.unsorted_segment_sum((1.0 - frac) * dy, cell, size)
            d_gather += tf.math.unsorted_segment_sum(frac * dy, cell + 1, size)
            d_pos = dy * (right - left)
            d_v = -tf.reduce_sum(d_pos * tf.math.divide_no_nan(slow2, pos * v), axis=1)
            if velocity.shape.rank == 1:
                d_v = tf.reduce_sum(d_v, axis=0)
            return tf.reshape(d_gather, [batch, traces, samples]), d_v

        return out, grad

    return nmo


# --------------------------------------------------------------------------
# gas properties
# --------------------------------------------------------------------------


def _pr_coefficients(a, b):
    return b - 1.0, a - 3.0 * b * b - 2.0 * b, b * (b * (1.0 + b) - a)


def compressibility_factor(a, b, phase: str = "vapor"):
    """Z factor of the Peng-Robinson equation of state.

    Solves Z^3 + (B-1) Z^2 + (A - 3B^2 - 2B) Z - (AB - B^2 - B^3) = 0 for the
    largest ("vapor") or the smallest ("liquid") real root above B. Where there
    is one real root the two are the same. `a` and `b` (positive) broadcast.
    Not meant for states on the spinodal, where two roots merge. Eager mode only.
    """
    if phase not in ("vapor", "liquid"):
        raise ValueError(f"unknown phase {phase!r}")
    a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
    shape = tf.broadcast_dynamic_shape(tf.shape(a), tf.shape(b))
    a, b = tf.broadcast_to(a, shape), tf.broadcast_to(b, shape)

    @tf.custom_gradient
    def z_root(a, b):
        c2, c1, c0 = _pr_coefficients(a, b)
        flat = np.stack([np.ones(c2.shape), c2.numpy(), c1.numpy(), c0.numpy()], -1).reshape(-1, 4)
        picked = []
        for poly, low in zip(flat, b.numpy().ravel()):
            roots = np.roots(poly)
            real = roots.real[np.abs(roots.imag) < 1e-7]
            real = real[real > low]
            picked.append(real.max() if phase == "vapor" else real.min())
        z = tf.constant(np.reshape(picked, c2.shape), a.dtype)
        for _ in range(2):
            z -= (((z + c2) * z + c1) * z + c0) / ((3.0 * z + 2.0 * c2) * z + c1)

        def grad(dz):
            lam = -dz / ((3.0 * z + 2.0 * c2) * z + c1)
            d_a = lam * (z - b)
            d_b = lam * (z * z - (6.0 * b + 2.0) * z + (3.0 * b + 2.0) * b - a)
            return d_a, d_b

        return z, grad

    return z_root(a, b)
