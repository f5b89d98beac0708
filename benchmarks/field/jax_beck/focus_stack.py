"""Light-microscope operators: all-in-focus fusion, deconvolution, FRET ratios."""

import jax
import jax.numpy as jnp
from jax.numpy import fft

EPS = 1e-6


def make_plane_fusion(beta=4.0, axis=0):
    """Softmax-in-z focus fusion.

    The returned function takes ``stack`` and ``sharpness`` (same shape, z along ``axis``) and
    gives ``(fused, depth)``: the all-in-focus image and the mean plane index, both without the z
    axis.
    """

    def weights(sharpness):
        return jax.nn.softmax(beta * sharpness, axis=axis)

    def plane_index(stack):
        shape = [1] * stack.ndim
        shape[axis] = -1
        return jnp.arange(stack.shape[axis], dtype=stack.dtype).reshape(shape)

    @jax.custom_vjp
    def fuse(stack, sharpness):
        w = weights(sharpness)
        return (w * stack).sum(axis), (w * plane_index(stack)).sum(axis)

    def fwd(stack, sharpness):
        w = weights(sharpness)
        fused = (w * stack).sum(axis)
        depth = (w * plane_index(stack)).sum(axis)
        return (fused, depth), (stack, w, fused)

    def bwd(res, cts):
        stack, w, fused = res
        g, _ = cts
        g = jnp.expand_dims(g, axis)
        centred = stack - jnp.expand_dims(fused, axis)
        return g * w, beta * g * w * centred

    fuse.defvjp(fwd, bwd)
    return fuse


fuse_planes = make_plane_fusion()


def _blur(image, psf):
    shape = image.shape[-2:]
    return fft.irfft2(fft.rfft2(image) * fft.rfft2(psf), s=shape)


def _blur_t(image, psf):
    shape = image.shape[-2:]
    return fft.irfft2(fft.rfft2(image) * jnp.conj(fft.rfft2(psf)), s=shape)


@jax.custom_vjp
def lucy_sweep(estimate, observed, psf):
    """One Richardson-Lucy sweep with periodic edges; images (..., h, w), psf (h, w), origin at [0, 0]."""
    ratio = observed / (_blur(estimate, psf) + EPS)
    return estimate * _blur_t(ratio, psf)


def _lucy_fwd(estimate, observed, psf):
    denom = _blur(estimate, psf) + EPS
    ratio = observed / denom
    gain = _blur_t(ratio, psf)
    return estimate * gain, (estimate, psf, denom, ratio, gain)


def _lucy_bwd(res, g):
    estimate, psf, denom, ratio, gain = res
    m = g * estimate
    d_ratio = _blur(m, psf)
    d_observed = d_ratio / denom
    d_denom = -d_observed * ratio
    d_estimate = g * gain + _blur(d_denom, psf)
    # psf enters twice: through the blur and through its transpose
    d_psf = _blur_t(d_denom, estimate) + _blur_t(ratio, m)
    return d_estimate, d_observed, d_psf.reshape((-1,) + psf.shape).sum(0)


lucy_sweep.defvjp(_lucy_fwd, _lucy_bwd)


@jax.custom_jvp
def fret_ratio(donor, acceptor, direct, cal):
    """Corrected FRET efficiency per pixel.

    ``donor``, ``acceptor`` and ``direct`` are the DD, DA and AA channels (any common or
    broadcastable shape); ``cal`` holds scalars ``leak`` (donor bleed-through), ``cross`` (direct
    excitation) and ``gamma`` (detection ratio).  Pixels whose total corrected signal is not above
    1e-6 get 0, and no gradient.
    """
    sens = acceptor - cal["leak"] * donor - cal["cross"] * direct
    total = sens + cal["gamma"] * donor
    lit = total > EPS
    return jnp.where(lit, sens / jnp.where(lit, total, 1.0), 0.0)


@fret_ratio.defjvp
def _fret_ratio_jvp(primals, tangents):
    donor, acceptor, direct, cal = primals
    t_donor, t_acceptor, t_direct, t_cal = tangents
    sens = acceptor - cal["leak"] * donor - cal["cross"] * direct
    total = sens + cal["gamma"] * donor
    lit = total > EPS
    safe = jnp.where(lit, total, 1.0)
    eff = jnp.where(lit, sens / safe, 0.0)
    t_sens = (
        t_acceptor
        - cal["leak"] * t_donor
        - t_cal["leak"] * donor
        - cal["cross"] * t_direct
        - t_cal["cross"] * direct
    )
    t_bright = t_cal["gamma"] * donor + cal["gamma"] * t_donor
    t_eff = ((1.0 - eff) * t_sens - eff * t_bright) / safe
    return eff, jnp.where(lit, t_eff, 0.0)
