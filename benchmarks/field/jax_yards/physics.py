"""Differentiable pieces of small simulators: transport, particle meshes, rotations."""
import itertools
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax


# ---------------------------------------------------------------- transport


def advection_diffusion_step(u, velocity=None, diffusivity=1e-2, *, dt=0.1, dx=1.0):
    """One implicit Euler step of ``u_t + c u_x = nu u_xx`` on a periodic line.

    Parameters
    ----------
    u : (n,) field at the old time
    velocity : (n,) velocity ``c`` at the nodes, none by default
    diffusivity : scalar ``nu``
    dt, dx : steps in time and space

    Returns
    -------
    (n,) field at the new time
    """

    def operator(v):
        left, right = jnp.roll(v, 1), jnp.roll(v, -1)
        out = v - dt * diffusivity * (left - 2.0 * v + right) / dx**2
        if velocity is not None:
            out = out + dt * velocity * (right - left) / (2.0 * dx)
        return out

    def solve(matvec, rhs):
        matrix = jax.vmap(matvec, out_axes=1)(jnp.eye(rhs.shape[0], dtype=rhs.dtype))
        return jnp.linalg.solve(matrix, rhs)

    return lax.custom_linear_solve(operator, u, solve, symmetric=True)


# ------------------------------------------------------------ particle mesh


def _cells(positions, grid_size, box_size):
    x = positions * (grid_size / box_size)
    base = jnp.floor(x)
    return base.astype(jnp.int32), x - base


def _corner(offset, base, frac, grid_size):
    index = tuple(jnp.mod(base[:, d] + o, grid_size) for d, o in enumerate(offset))
    factors = [frac[:, d] if o else 1.0 - frac[:, d] for d, o in enumerate(offset)]
    return index, factors


def _product(factors, like):
    out = jnp.ones_like(like)
    for f in factors:
        out = out * f
    return out


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _cic(positions, mass, grid_size, box_size):
    dim = positions.shape[1]
    base, frac = _cells(positions, grid_size, box_size)
    rho = jnp.zeros((grid_size,) * dim, positions.dtype)
    for offset in itertools.product((0, 1), repeat=dim):
        index, factors = _corner(offset, base, frac, grid_size)
        rho = rho.at[index].add(mass * _product(factors, mass))
    return rho * (grid_size / box_size) ** dim


def _cic_fwd(positions, mass, grid_size, box_size):
    return _cic(positions, mass, grid_size, box_size), (positions, mass)


def _cic_bwd(grid_size, box_size, res, g):
    positions, mass = res
    dim = positions.shape[1]
    base, frac = _cells(positions, grid_size, box_size)
    inv_h = grid_size / box_size
    g = g * inv_h**dim
    d_mass = jnp.zeros_like(mass)
    d_pos = [jnp.zeros_like(mass) for _ in range(dim)]
    for offset in itertools.product((0, 1), repeat=dim):
        index, factors = _corner(offset, base, frac, grid_size)
        seen = g[index]
        d_mass = d_mass + seen * _product(factors, mass)
        for d, o in enumerate(offset):
            others = _product(factors[:d] + factors[d + 1 :], mass)
            d_pos[d] = d_pos[d] + (1.0 if o else -1.0) * seen * others
    return jnp.stack(d_pos, axis=1) * (mass * inv_h)[:, None], d_mass


_cic.defvjp(_cic_fwd, _cic_bwd)


def cic_paint(positions, mass=None, *, grid_size: int, box_size: float):
    """Paint particles on a periodic grid with cloud-in-cell weights.

    positions (particles, dim) are lengths in a cube of side ``box_size``; mass (particles,) is one
    where not given. Returns the density, of shape ``(grid_size,) * dim``.
    """
    if mass is None:
        mass = jnp.ones(positions.shape[0], positions.dtype)
    return _cic(positions, mass, grid_size, box_size)


# ---------------------------------------------------------------- rotations


def hat(w):
    zero = jnp.zeros_like(w[..., 0])
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    return jnp.stack(
        [
            jnp.stack([zero, -z, y], -1),
            jnp.stack([z, zero, -x], -1),
            jnp.stack([-y, x, zero], -1),
        ],
        -2,
    )


def _angle_series(w):
    """sin(t)/t, (1 - cos t)/t^2 and (t - sin t)/t^3 for t = |w|."""
    t2 = jnp.sum(w * w, axis=-1)[..., None, None]
    small = t2 < 0.25
    s2 = jnp.where(small, t2, 0.0)
    safe = jnp.where(small, 1.0, t2)
    t = jnp.sqrt(safe)
    a = jnp.where(small, 1 - s2 / 6 * (1 - s2 / 20 * (1 - s2 / 42 * (1 - s2 / 72 * (1 - s2 / 110 * (1 - s2 / 156))))), jnp.sin(t) / t)
    b = jnp.where(small, 0.5 * (1 - s2 / 12 * (1 - s2 / 30 * (1 - s2 / 56 * (1 - s2 / 90 * (1 - s2 / 132))))), 2 * jnp.sin(t / 2) ** 2 / safe)
    c = jnp.where(small, (1 - s2 / 20 * (1 - s2 / 42 * (1 - s2 / 72 * (1 - s2 / 110 * (1 - s2 / 156))))) / 6, (t - jnp.sin(t)) / (safe * t))
    return a, b, c


@jax.custom_jvp
def so3_exp(w):
    a, b, _ = _angle_series(w)
    k = hat(w)
    return jnp.eye(3, dtype=w.dtype) + a * k + b * (k @ k)


@so3_exp.defjvp
def _so3_exp_jvp(primals, tangents):
    (w,), (dw,) = primals, tangents
    r = so3_exp(w)
    _, b, c = _angle_series(w)
    k = hat(w)
    jac = jnp.eye(3, dtype=w.dtype) + b * k + c * (k @ k)
    body = (jac @ dw[..., None])[..., 0]
    return r, r @ hat(body)


def rotate_points(w, points):
    """Rotate points (..., n, 3) by rotation vectors (..., 3)."""
    return points @ jnp.swapaxes(so3_exp(w), -1, -2)
