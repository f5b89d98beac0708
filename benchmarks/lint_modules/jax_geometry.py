"""Geometry and small-physics helpers: rotations, hyperbolic maps, particle energies."""
import jax
import jax.numpy as jnp
import jax.numpy as np
from jax import vmap

EPS = 1e-12
BALL = 1.0 - 1e-5


def vector_length(x, axis=-1):
    sq = jnp.sum(x * x, axis=axis)
    is_zero = sq == 0.0
    sq = jnp.where(is_zero, 1.0, sq)
    return jnp.where(is_zero, 0.0, jnp.sqrt(sq))


def skew(w):
    zero = jnp.zeros_like(w[0])
    return jnp.stack(
        [
            jnp.stack([zero, -w[2], w[1]]),
            jnp.stack([w[2], zero, -w[0]]),
            jnp.stack([-w[1], w[0], zero]),
        ]
    )


def so3_exp(w):
    """Rodrigues' formula for one rotation vector."""
    theta = jnp.sqrt(jnp.dot(w, w) + EPS)
    k = skew(w)
    a = jnp.sin(theta) / theta
    b = (1.0 - jnp.cos(theta)) / theta**2
    return jnp.eye(3) + a * k + b * (k @ k)


def mean_angular_error(pred_dirs, true_dirs):
    """Both inputs are arrays of unit vectors, shape (n, 3)."""
    cosine = np.einsum("ni,ni->n", pred_dirs, true_dirs)
    return np.degrees(np.arccos(cosine)).mean()


def vertex_angle(u, v):
    """Angle at a mesh vertex between two unit edge directions."""
    cosine = jnp.sum(u * v, axis=-1)
    cosine = jnp.clip(cosine, -1.0 + 1e-6, 1.0 - 1e-6)
    return jnp.arccos(cosine)


def project_to_ball(x):
    r = vector_length(x)[..., None]
    shrink = BALL / jnp.maximum(r, BALL)
    return x * shrink


def mobius_add(x, y):
    xy = jnp.sum(x * y, -1, keepdims=True)
    xx = jnp.sum(x * x, -1, keepdims=True)
    yy = jnp.sum(y * y, -1, keepdims=True)
    num = (1.0 + 2.0 * xy + yy) * x + (1.0 - xx) * y
    den = jnp.maximum(1.0 + 2.0 * xy + xx * yy, 1e-10)
    return num / den


def poincare_distance(x, y):
    x, y = project_to_ball(x), project_to_ball(y)
    r = vector_length(mobius_add(-x, y))
    return jnp.log((1.0 + r) / (1.0 - r))


def spherical_j0(r):
    return jnp.where(r > 0.0, jnp.sin(r) / r, 1.0)


radial_slope = vmap(jax.grad(spherical_j0))


def pairwise_distances(x, y):
    nx = jnp.sum(jnp.square(x), axis=-1)
    ny = jnp.sum(jnp.square(y), axis=-1)
    return jnp.sqrt(nx[:, None] + ny[None, :] - 2.0 * jnp.dot(x, y.T))


def normalized_laplacian(adj):
    deg = adj.sum(axis=-1)
    has_edge = deg > 0
    inv_root = jnp.where(has_edge, 1.0 / jnp.sqrt(jnp.where(has_edge, deg, 1.0)), 0.0)
    n = adj.shape[0]
    return jnp.eye(n) - inv_root[:, None] * adj * inv_root[None, :]


def lennard_jones(pos, sigma=1.0, depth=1.0):
    n = pos.shape[0]
    diff = pos[:, None, :] - pos[None, :, :]
    r = jnp.linalg.norm(diff, axis=-1) + jnp.eye(n)
    sr6 = (sigma / r) ** 6 * (1.0 - jnp.eye(n))
    return 2.0 * depth * jnp.sum(sr6 * sr6 - sr6)


def forces(pos):
    return -jax.grad(lennard_jones)(pos)


def verlet(pos, vel, dt, mass=1.0):
    half = vel + 0.5 * dt / mass * forces(pos)
    pos = pos + dt * half
    return pos, half + 0.5 * dt / mass * forces(pos)


def relativistic_kinetic(p, mass):
    """Kinetic energy in units c = 1, ``p`` of shape (n, 3)."""
    p2 = jnp.einsum("ni,ni->n", p, p)
    total = jnp.sqrt(p2 + mass**2)
    return total - mass
