"""Rendering and tomography."""

from typing import NamedTuple, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np


class RayOutput(NamedTuple):
    color: jax.Array
    opacity: jax.Array


@jax.custom_gradient
def composite_rays(density, color, deltas, background):
    """Composite samples along rays, front to back.

    Parameters
    ----------
    density : (..., S) array
        Non-negative volume densities.
    color : (..., S, C) array
    deltas : (..., S) array
        Lengths of the segments.
    background : (C,) array
        Seen through what the ray leaves transparent.

    Returns
    -------
    RayOutput
        ``color`` ``(..., C)`` and ``opacity`` ``(...)``.
    """
    tau = density * deltas
    total = jnp.cumsum(tau, axis=-1)
    after = jnp.exp(-total)
    before = jnp.exp(-(total - tau))
    weights = -before * jnp.expm1(-tau)
    left = after[..., -1]
    rgb = jnp.einsum("...s,...sc->...c", weights, color) + left[..., None] * background

    def vjp(ct):
        g, g_opacity = ct
        seen = jnp.einsum("...sc,...c->...s", color, g)
        seen_bg = jnp.sum(background * g, axis=-1)
        contrib = weights * seen
        behind = jnp.flip(jnp.cumsum(jnp.flip(contrib, -1), -1), -1) - contrib
        g_tau = after * seen - behind - (left * seen_bg)[..., None] + (left * g_opacity)[..., None]
        g_background = jnp.sum(
            (left[..., None] * g).reshape(-1, background.shape[0]), axis=0
        )
        return (
            g_tau * deltas,
            weights[..., None] * g[..., None, :],
            g_tau * density,
            g_background,
        )

    return RayOutput(rgb, 1.0 - left), vjp


class ParallelBeamProjector:
    """Parallel-beam projection of an image.

    Every pixel is projected on the detector line and its value shared between
    the two nearest bins by linear interpolation; what falls outside of the
    detector is not measured.

    Args:
      image_shape: rows and columns of the image.
      angles: view angles in radians.
      num_bins: length of the detector in bins of one pixel width; by default it
        is long enough for the diagonal of the image.
      offset: shift of the detector, in bins.
    """

    def __init__(
        self,
        image_shape: Tuple[int, int],
        angles: Sequence[float],
        num_bins: int | None = None,
        offset: float = 0.0,
    ):
        rows, cols = image_shape
        if num_bins is None:
            num_bins = int(np.ceil(np.hypot(rows, cols))) + 2
        self.image_shape = (rows, cols)
        self.num_bins = num_bins
        theta = np.asarray(angles, dtype=np.float64)[:, None, None]
        yy = (np.arange(rows) - 0.5 * (rows - 1))[None, :, None]
        xx = (np.arange(cols) - 0.5 * (cols - 1))[None, None, :]
        pos = xx * np.cos(theta) + yy * np.sin(theta) + 0.5 * (num_bins - 1) + offset
        low = np.floor(pos)
        self._bin = low.astype(np.int32)
        self._frac = pos - low
        self._view = np.broadcast_to(np.arange(theta.shape[0])[:, None, None], pos.shape)
        self.num_views = theta.shape[0]

        @jax.custom_vjp
        def apply(image):
            return self._scatter(image)

        apply.defvjp(lambda image: (self._scatter(image), None), lambda _, g: (self._gather(g),))
        self._apply = apply

    def _scatter(self, image):
        frac = jnp.asarray(self._frac, image.dtype)
        sino = jnp.zeros((self.num_views, self.num_bins), image.dtype)
        for shift, weight in ((0, 1.0 - frac), (1, frac)):
            idx = self._bin + shift
            idx = np.where((idx >= 0) & (idx < self.num_bins), idx, self.num_bins)
            sino = sino.at[self._view, idx].add(weight * image[None], mode="drop")
        return sino

    def _gather(self, sino):
        frac = jnp.asarray(self._frac, sino.dtype)
        out = jnp.zeros(self.image_shape, sino.dtype)
        for shift, weight in ((0, 1.0 - frac), (1, frac)):
            idx = np.clip(self._bin + shift, 0, self.num_bins - 1)
            out = out + jnp.sum(weight * sino[self._view, idx], axis=0)
        return out

    def project(self, image: jax.Array) -> jax.Array:
        """Sinogram ``(views, bins)`` of an image."""
        if image.shape != self.image_shape:
            raise ValueError(f"expected an image of shape {self.image_shape}, got {image.shape}")
        return self._apply(image)

    def residual(self, image: jax.Array, sinogram: jax.Array) -> jax.Array:
        """Half the squared misfit to a measured sinogram."""
        diff = self.project(image) - sinogram
        return 0.5 * jnp.sum(diff * diff)
