r"""Energies and integrator steps for learned simulators.

Units are whatever the caller uses consistently. Forces are minus the gradients of the
energies here; the closed forms save the graph of the :math:`N \times N` distance matrix.
"""
import keras
from keras import ops


def lennard_jones_energy(positions, epsilon, sigma, box, cutoff):
    r"""Total Lennard-Jones energy in a cubic periodic box.

    .. math::
        E = \sum_{i<j} 4\epsilon\left[(\sigma/r)^{12} - (\sigma/r)^6\right] - u(r_c)

    over the pairs closer than ``cutoff`` (energy shifted to vanish there).

    Parameters
    ----------
    positions : (n, 3) tensor
    epsilon, sigma : scalar tensors
    box : float
        Edge length.
    cutoff : float
        At most ``box / 2``.
    """

    @ops.custom_gradient
    def energy(positions, epsilon, sigma):
        n = positions.shape[0]
        d = positions[:, None, :] - positions[None, :, :]
        d = d - box * ops.round(d / box)
        r2 = ops.sum(d * d, axis=-1)
        off_diagonal = ops.logical_not(ops.cast(ops.eye(n), "bool"))
        pair = ops.logical_and(off_diagonal, r2 < cutoff**2)
        inv2 = 1.0 / ops.where(pair, r2, ops.ones_like(r2))
        w = ops.cast(pair, r2.dtype)
        s6 = (sigma * sigma * inv2) ** 3
        c6 = (sigma / cutoff) ** 6
        shape = s6 * s6 - s6 - (c6 * c6 - c6)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            radial = w * 24.0 * epsilon * (s6 - 2.0 * s6 * s6) * inv2
            d_pos = ops.sum(radial[:, :, None] * d, axis=1)
            d_eps = 2.0 * ops.sum(w * shape)
            d_sig = 12.0 * epsilon / sigma * ops.sum(
                w * (2.0 * s6 * s6 - s6 - (2.0 * c6 * c6 - c6))
            )
            return upstream * d_pos, upstream * d_eps, upstream * d_sig

        return 2.0 * epsilon * ops.sum(w * shape), grad

    return energy(positions, epsilon, sigma)


def _laplacian(u, dx):
    return (
        ops.roll(u, 1, axis=-1)
        + ops.roll(u, -1, axis=-1)
        + ops.roll(u, 1, axis=-2)
        + ops.roll(u, -1, axis=-2)
        - 4.0 * u
    ) / dx**2


def diffusion_step(u, kappa, dt=0.1, dx=1.0):
    """One explicit Euler step of u_t = kappa(x, y) * laplace(u) on a periodic grid.

    u: (batch, ny, nx); kappa: (ny, nx), the diffusivity map to be inferred.
    """

    @ops.custom_gradient
    def step(u, kappa):
        lap = _laplacian(u, dx)

        def grad(*args, upstream=None):
            g = args[0] if upstream is None else upstream
            du = g + dt * kappa * _laplacian(g, dx)  # the stencil is symmetric
            dkappa = dt * ops.sum(g * lap, axis=0)
            return du, dkappa

        return u + dt * kappa * lap, grad

    return step(u, kappa)


def _sum_to_shape(g, shape):
    extra = len(g.shape) - len(shape)
    if extra:
        g = ops.sum(g, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return ops.sum(g, axis=axes, keepdims=True) if axes else g


@ops.custom_gradient
def quaternion_rotate(q, v):
    """Computes ``q v q*`` for quaternions (w, x, y, z).

    The batch axes of ``q`` (..., 4) and ``v`` (..., 3) broadcast. ``q`` is used as it is:
    if it is not of unit length the result is scaled by its squared length.
    """
    w, r = q[..., :1], q[..., 1:]

    def dot(a, b):
        return ops.sum(a * b, axis=-1, keepdims=True)

    def cross(a, b):
        a0, a1, a2 = a[..., 0], a[..., 1], a[..., 2]
        b0, b1, b2 = b[..., 0], b[..., 1], b[..., 2]
        return ops.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=-1)

    real = w * w - dot(r, r)
    out = real * v + 2.0 * dot(r, v) * r + 2.0 * w * cross(r, v)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = upstream
        dv = real * g + 2.0 * dot(r, g) * r - 2.0 * w * cross(r, g)
        dw = 2.0 * (w * dot(g, v) + dot(g, cross(r, v)))
        dr = 2.0 * (dot(r, v) * g + dot(r, g) * v - dot(g, v) * r + w * cross(v, g))
        dq = ops.concatenate([dw, dr], axis=-1)
        return _sum_to_shape(dq, q.shape), _sum_to_shape(dv, v.shape)

    return out, grad


@ops.custom_gradient
def elastic_band_energy(images, springs):
    """Spring energy of a nudged elastic band.

    images (n, dof) are the configurations from reactant to product, springs (n - 1,) the
    constants of the springs between neighbours.
    """
    d = images[1:] - images[:-1]
    length2 = ops.sum(d * d, axis=-1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        k = ops.concatenate([springs, springs[-1:]], axis=0)[:, None]
        tension = k * (ops.roll(images, -1, axis=0) - images)
        d_images = ops.roll(tension, 1, axis=0) - tension
        return upstream * d_images, upstream * 0.5 * length2

    return 0.5 * ops.sum(springs * length2), grad


class DiffusionRollout(keras.layers.Layer):
    """A few diffusion steps with a trainable diffusivity map."""

    def __init__(self, steps=4, dt=0.1, **kwargs):
        super().__init__(**kwargs)
        self.steps = steps
        self.dt = dt

    def build(self, input_shape):
        self.log_kappa = self.add_weight(
            shape=tuple(input_shape[1:]), initializer="zeros", name="log_kappa"
        )

    def call(self, u):
        kappa = ops.exp(self.log_kappa)
        for _ in range(self.steps):
            u = diffusion_step(u, kappa, self.dt)
        return u
