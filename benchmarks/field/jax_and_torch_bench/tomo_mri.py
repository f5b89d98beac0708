"""Operators for unrolled CT / MR reconstruction."""
import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np


# ---------------------------------------------------------------- CT


def _ray_tables(shape, angles, n_det, step):
    # corner indices and bilinear weights of every sample of every ray: (A, D, S, 4)
    h, w = shape
    half = 0.5 * np.hypot(h, w)
    s = np.arange(-half + 0.5 * step, half, step)
    u = np.arange(n_det) - 0.5 * (n_det - 1)
    a = np.asarray(angles)[:, None, None]
    x = u[None, :, None] * np.cos(a) - s * np.sin(a) + 0.5 * (w - 1)
    y = u[None, :, None] * np.sin(a) + s * np.cos(a) + 0.5 * (h - 1)
    x0, y0 = np.floor(x).astype(int), np.floor(y).astype(int)
    fx, fy = x - x0, y - y0
    idx, wgt = [], []
    for dy, dx in ((0, 0), (0, 1), (1, 0), (1, 1)):
        xi, yi = x0 + dx, y0 + dy
        inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
        idx.append(np.where(inside, yi * w + xi, 0))
        wgt.append(inside * (fx if dx else 1 - fx) * (fy if dy else 1 - fy))
    return np.stack(idx, -1), np.stack(wgt, -1)


def make_projector(shape, angles, n_det=None, step=1.0):
    """Parallel-beam line integrals, (B, H, W) -> (B, angles, n_det).

    `step` is the sampling distance along the ray in pixels.
    """
    n_det = n_det or max(shape)
    idx, wgt = _ray_tables(shape, angles, n_det, step)

    @jax.custom_vjp
    def project(img):
        flat = img.reshape(img.shape[0], -1)
        return step * jnp.einsum("badsk,adsk->bad", flat[:, idx], jnp.asarray(wgt, img.dtype))

    def fwd(img):
        return project(img), None

    def bwd(_, g):
        # smear every ray back over the corners it was sampled from
        spread = g[..., None, None] * jnp.asarray(wgt, g.dtype)
        flat = jnp.zeros((g.shape[0], shape[0] * shape[1]), g.dtype)
        flat = flat.at[:, idx].add(spread)
        return (flat.reshape((g.shape[0],) + tuple(shape)),)

    project.defvjp(fwd, bwd)
    return project


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def spectral_filter(sino, gain, n_fft):
    """Filter the last axis with a (learned) real transfer function.

    sino (B, A, D), gain (n_fft // 2 + 1,), n_fft >= D; zero padded, cropped back to D.
    """
    return jnp.fft.irfft(gain * jnp.fft.rfft(sino, n_fft), n_fft)[..., : sino.shape[-1]]


def _filter_fwd(sino, gain, n_fft):
    return spectral_filter(sino, gain, n_fft), (sino, gain)


def _filter_bwd(n_fft, res, g):
    sino, gain = res
    gs = jnp.fft.rfft(g, n_fft)
    d_sino = jnp.fft.irfft(gain * gs, n_fft)[..., : sino.shape[-1]]
    cross = jnp.real(jnp.conj(jnp.fft.rfft(sino, n_fft)) * gs)
    # bins that stand for themselves and their mirror image
    k = np.arange(gain.shape[0])
    mult = np.where((k == 0) | (2 * k == n_fft), 1.0, 2.0) / n_fft
    d_gain = jnp.asarray(mult, g.dtype) * cross.sum((0, 1))
    return d_sino, d_gain


spectral_filter.defvjp(_filter_fwd, _filter_bwd)


def ramp(n_fft, window=None):
    f = np.fft.rfftfreq(n_fft)
    out = 2.0 * f
    if window == "hann":
        out = out * (0.5 + 0.5 * np.cos(2 * np.pi * f))
    elif window is not None:
        raise ValueError(window)
    return out


@dataclasses.dataclass
class LearnedFBP:
    shape: tuple
    n_angles: int = 60
    window: str = "hann"
    step: float = 0.5

    def __post_init__(self):
        self.angles = np.linspace(0, np.pi, self.n_angles, endpoint=False)
        self.n_det = max(self.shape)
        self.n_fft = 2 * self.n_det
        self.project = make_projector(self.shape, self.angles, self.n_det, self.step)

    def init(self):
        return {"gain": jnp.asarray(ramp(self.n_fft, self.window)), "tau": jnp.asarray(0.1)}

    def apply(self, params, sino):
        filtered = spectral_filter(sino, params["gain"], self.n_fft)
        zero = jnp.zeros((sino.shape[0],) + tuple(self.shape), sino.dtype)
        (recon,) = jax.vjp(self.project, zero)[1](filtered)
        # one gradient step on the data term
        return recon - params["tau"] * jax.grad(self.data_term)(recon, sino)

    def data_term(self, img, sino):
        return 0.5 * jnp.sum((self.project(img) - sino) ** 2)


# ---------------------------------------------------------------- regulariser


def tv_penalty(img, spacing=(1.0, 1.0), reduction="sum", eps=1e-3):
    """Isotropic total variation of (B, H, W), smoothed with eps.

    spacing: pixel size (dy, dx).
    reduction: "sum" | "mean" (per pixel of the batch) | "batchmean" (sum divided by B).
    """
    hy, hx = spacing

    def diffs(x):
        gy = jnp.pad(jnp.diff(x, axis=1), ((0, 0), (0, 1), (0, 0))) / hy
        gx = jnp.pad(jnp.diff(x, axis=2), ((0, 0), (0, 0), (0, 1))) / hx
        return gy, gx

    @jax.custom_gradient
    def tv(x):
        gy, gx = diffs(x)
        mag = jnp.sqrt(gy**2 + gx**2 + eps**2)
        total = mag.sum()
        if reduction == "mean":
            total = total / x.size
        elif reduction == "batchmean":
            total = total / x.shape[0]

        def grad(g):
            py, px = gy / mag, gx / mag
            back_y = jnp.pad(py[:, :-1], ((0, 0), (1, 0), (0, 0))) - py
            back_x = jnp.pad(px[:, :, :-1], ((0, 0), (0, 0), (1, 0))) - px
            if reduction == "mean":
                g = g / x.size
            return g * (back_y / hy + back_x / hx)

        return total, grad

    return tv(img)


# ---------------------------------------------------------------- MR


def _cfft2(x):
    ax = (-2, -1)
    return jnp.fft.fftshift(jnp.fft.fft2(jnp.fft.ifftshift(x, ax), norm="ortho"), ax)


@jax.custom_vjp
def sense(image, maps, mask):
    """Undersampled multi-coil k-space.

    image (B, H, W) complex, maps (C, H, W) complex, mask (H, W) bool -> (B, C, H, W) complex.
    """
    return mask * _cfft2(maps * image[:, None])


def _sense_fwd(image, maps, mask):
    return sense(image, maps, mask), (image, maps, mask)


def _sense_bwd(res, g):
    image, maps, mask = res
    # JAX cotangents of complex linear maps are pulled back by the transpose; the centred
    # DFT matrix is symmetric.
    coil = _cfft2(mask * g)
    return (maps * coil).sum(1), (image[:, None] * coil).sum(0), None


sense.defvjp(_sense_fwd, _sense_bwd)


@jax.custom_jvp
def data_consistency(pred, meas, mask, lam):
    # pred, meas (B, C, H, W, 2); mask bool (B, 1, H, W, 1); lam (C,) noise weight of each coil
    lam = lam[:, None, None, None]
    return jnp.where(mask, (pred + lam * meas) / (1 + lam), pred)


@data_consistency.defjvp
def _dc_jvp(primals, tangents):
    pred, meas, mask, lam = primals
    d_pred, d_meas, _, d_lam = tangents
    out = data_consistency(pred, meas, mask, lam)
    lam = lam[:, None, None, None]
    d_lam = d_lam[:, None, None, None]
    keep = jnp.where(mask, 1 / (1 + lam), 1.0)
    take = jnp.where(mask, lam / (1 + lam), 0.0)
    d_out = keep * d_pred + take * d_meas + (meas - pred) / (1 + lam) ** 2 * d_lam
    return out, d_out


def _to_channels(z):
    return jnp.stack([z.real, z.imag], -1)


def unrolled_step(params, image, kspace, maps, mask):
    """One cascade: forward, consistency with the measured lines, adjoint, TV descent."""
    full = jnp.ones(mask.shape, bool)
    k = _to_channels(sense(image, maps, full))
    k = data_consistency(k, _to_channels(kspace), mask[None, None, :, :, None], jnp.exp(params["log_lam"]))
    k = k[..., 0] + 1j * k[..., 1]
    ax = (-2, -1)
    coil = jnp.fft.fftshift(jnp.fft.ifft2(jnp.fft.ifftshift(k, ax), norm="ortho"), ax)
    image = (jnp.conj(maps) * coil).sum(1)
    slope = jax.grad(lambda r, i: tv_penalty(r, reduction="batchmean") + tv_penalty(i, reduction="batchmean"), (0, 1))
    d_re, d_im = slope(image.real, image.imag)
    return image - params["mu"] * (d_re + 1j * d_im)


def demo(seed=0):
    key = jax.random.split(jax.random.PRNGKey(seed), 4)
    image = jax.random.normal(key[0], (2, 12, 12)) + 1j * jax.random.normal(key[1], (2, 12, 12))
    maps = jax.random.normal(key[2], (3, 12, 12)) + 0.3j
    maps = maps / jnp.sqrt((jnp.abs(maps) ** 2).sum(0))
    mask = jnp.zeros((12, 12), bool).at[:, ::3].set(True).at[:, 5:7].set(True)
    kspace = sense(image, maps, mask)
    params = {"log_lam": jnp.zeros(3), "mu": jnp.asarray(1e-2)}
    out = unrolled_step(params, jnp.zeros_like(image), kspace, maps, mask)

    fbp = LearnedFBP((12, 12), n_angles=9)
    sino = fbp.project(image.real)
    return out.shape, fbp.apply(fbp.init(), sino).shape


if __name__ == "__main__":
    print(demo())
