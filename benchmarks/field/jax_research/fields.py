from dataclasses import dataclass
from functools import partial
from typing import Optional, Tuple

import jax
import jax.numpy as jnp
import numpy as np


# --- scalar diffraction


def _axial_wavenumber(shape, wavelength, pitch, dtype):
    fy = jnp.fft.fftfreq(shape[0], pitch, dtype=dtype)[:, None]
    fx = jnp.fft.fftfreq(shape[1], pitch, dtype=dtype)[None, :]
    arg = 1.0 / wavelength**2 - fx**2 - fy**2
    root = 2 * np.pi * jnp.sqrt(jnp.abs(arg))
    return jnp.where(arg >= 0, root, 1j * root)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def angular_spectrum(field, distance, wavelength, pitch):
    """Propagate a complex field by the angular spectrum method.

    Args:
      field: complex ``[..., ny, nx]`` samples in the source plane.
      distance: propagation distance (scalar).
      wavelength: in the unit of ``distance``.
      pitch: sample spacing, same unit.

    Returns:
      The field in the target plane; evanescent components decay.
    """
    return _angular_spectrum_fwd(field, distance, wavelength, pitch)[0]


def _angular_spectrum_fwd(field, distance, wavelength, pitch):
    kz = _axial_wavenumber(field.shape[-2:], wavelength, pitch, jnp.real(field).dtype)
    transfer = jnp.exp(1j * kz * distance)
    out_hat = transfer * jnp.fft.fft2(field)
    return jnp.fft.ifft2(out_hat), (transfer, kz, out_hat, distance)


def _angular_spectrum_bwd(wavelength, pitch, res, g):
    transfer, kz, out_hat, distance = res
    dfield = jnp.fft.ifft2(jnp.conj(transfer) * jnp.fft.fft2(g))
    slope = jnp.fft.ifft2(1j * kz * out_hat)
    ddistance = jnp.real(jnp.sum(g * slope)).astype(jnp.result_type(distance))
    return dfield, ddistance


angular_spectrum.defvjp(_angular_spectrum_fwd, _angular_spectrum_bwd)


# --- spectra


class Periodogram:
    """One-sided power spectral density of real signals.

    Parameters
    ----------
    window : array of shape (n,)
        Taper; its length fixes the length of the signals.
    fs : float
        Sampling rate.
    detrend : bool
        Remove the mean of each signal first.
    """

    def __init__(self, window, fs: float = 1.0, *, detrend: bool = True):
        self.window = jnp.asarray(window)
        self.fs = fs
        self.detrend = detrend
        n = self.window.shape[0]
        sides = np.full(n // 2 + 1, 2.0)
        sides[0] = 1.0
        if n % 2 == 0:
            sides[-1] = 1.0
        self.weights = jnp.asarray(sides) / (fs * jnp.sum(self.window**2))
        self._power = self._build(n)

    def _build(self, n):
        edge = np.ones(n // 2 + 1)
        edge[0] = edge[-1] = 2.0

        def spectrum(x):
            if self.detrend:
                x = x - jnp.mean(x, axis=-1, keepdims=True)
            return jnp.fft.rfft(x * self.window, axis=-1)

        @jax.custom_vjp
        def power(x):
            z = spectrum(x)
            return self.weights * (z.real**2 + z.imag**2)

        def fwd(x):
            z = spectrum(x)
            return self.weights * (z.real**2 + z.imag**2), z

        def bwd(z, g):
            half = jnp.asarray(edge, g.dtype) * self.weights * g * z
            dx = n * jnp.fft.irfft(half, n=n, axis=-1) * self.window
            if self.detrend:
                dx = dx - jnp.mean(dx, axis=-1, keepdims=True)
            return (dx.astype(g.dtype),)

        power.defvjp(fwd, bwd)
        return power

    def frequencies(self):
        return jnp.fft.rfftfreq(self.window.shape[0], 1.0 / self.fs)

    def __call__(self, x):
        """Density of ``x`` [..., n] at :meth:`frequencies`."""
        return self._power(x)


# --- statistics


@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def central_moment(x, order: int = 2, axis: int = -1):
    c = x - jnp.mean(x, axis=axis, keepdims=True)
    return jnp.mean(c**order, axis=axis)


@central_moment.defjvp
def _central_moment_jvp(order, axis, primals, tangents):
    (x,), (dx,) = primals, tangents
    c = x - jnp.mean(x, axis=axis, keepdims=True)
    value = jnp.mean(c**order, axis=axis)
    return value, order * jnp.mean(c ** (order - 1) * dx, axis=axis)


def skewness(x, axis=-1):
    return central_moment(x, 3, axis) / central_moment(x, 2, axis) ** 1.5


# --- pair potentials


def _pair_terms(cfg, positions, sigma, epsilon, species, pairs):
    box, cutoff, shift = cfg
    n = positions.shape[0]
    valid = jnp.all(pairs < n, axis=-1)
    i, j = jnp.minimum(pairs, n - 1).T
    disp = positions[i] - positions[j]
    if box is not None:
        edges = jnp.asarray(box, positions.dtype)
        disp = disp - edges * jnp.round(disp / edges)
    r2 = jnp.sum(disp * disp, axis=-1)
    inside = valid & (r2 < cutoff**2)
    r2 = jnp.where(inside, r2, 1.0)
    si, sj = species[i], species[j]
    sg, ep = sigma[si, sj], epsilon[si, sj]
    s6 = (sg * sg / r2) ** 3
    c6 = (sg / cutoff) ** 6 if shift else jnp.zeros_like(s6)
    return i, j, si, sj, disp, r2, inside, sg, ep, s6, c6


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _lj_energy(cfg, positions, sigma, epsilon, species, pairs):
    *_, inside, _, ep, s6, c6 = _pair_terms(cfg, positions, sigma, epsilon, species, pairs)
    u = 4 * ep * ((s6 * s6 - s6) - (c6 * c6 - c6))
    return jnp.sum(jnp.where(inside, u, 0))


def _lj_fwd(cfg, positions, sigma, epsilon, species, pairs):
    args = (positions, sigma, epsilon, species, pairs)
    return _lj_energy(cfg, *args), args


def _lj_bwd(cfg, res, g):
    positions, sigma, epsilon, species, pairs = res
    i, j, si, sj, disp, r2, inside, sg, ep, s6, c6 = _pair_terms(cfg, *res)
    bare = s6 * s6 - s6
    edge = c6 * c6 - c6
    du_dr2 = jnp.where(inside, 4 * ep * (3 * s6 - 6 * s6 * s6) / r2, 0)
    du_dsigma = jnp.where(inside, 4 * ep * ((12 * s6 * s6 - 6 * s6) - (12 * c6 * c6 - 6 * c6)) / sg, 0)
    du_deps = jnp.where(inside, 4 * (bare - edge), 0)
    push = g * 2 * du_dr2[:, None] * disp
    dpos = jnp.zeros_like(positions).at[i].add(push).at[j].add(-push)
    dsigma = jnp.zeros_like(sigma).at[si, sj].add(g * du_dsigma)
    deps = jnp.zeros_like(epsilon).at[si, sj].add(g * du_deps)
    return dpos, dsigma, deps, None, None


_lj_energy.defvjp(_lj_fwd, _lj_bwd)


@dataclass(frozen=True)
class LennardJones:
    """Truncated 12-6 potential over a pair list.

    Attributes:
      cutoff: pairs at or beyond this distance do not interact.
      box: edge lengths of an orthorhombic periodic cell, or None.
      shift: subtract the value at the cutoff.
    """

    cutoff: float
    box: Optional[Tuple[float, ...]] = None
    shift: bool = True

    def energy(self, positions, sigma, epsilon, *, species, pairs):
        """Total energy.

        Args:
          positions: ``[n, dim]``.
          sigma: ``[kinds, kinds]`` lengths, indexed by the species of a pair.
          epsilon: ``[kinds, kinds]`` depths.
          species: ``[n]`` integers.
          pairs: ``[p, 2]`` integers; entries equal to ``n`` fill up the list.
        """
        cfg = (self.box, self.cutoff, self.shift)
        return _lj_energy(cfg, positions, sigma, epsilon, species, pairs)

    def forces(self, positions, sigma, epsilon, *, species, pairs):
        grad = jax.grad(lambda r: self.energy(r, sigma, epsilon, species=species, pairs=pairs))
        return -grad(positions)
