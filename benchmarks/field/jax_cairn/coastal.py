"""Coast and hillslope physics for the landscape-evolution assimilation.

Both operators are called once per model step, so neither should leave a long
tape behind: the dispersion relation is differentiated at its solution, the
hillslope step through its own adjoint stencil.
"""
import functools

import jax
import jax.numpy as jnp


@functools.partial(jax.custom_jvp, nondiff_argnums=(2,))
def wave_number(omega, depth, gravity=9.81):
    """Wave number of linear gravity waves, the k > 0 that satisfies
    omega^2 = g k tanh(k h).

    omega (rad/s) and depth (m) are positive and broadcast against each other.
    A dozen Newton steps from Eckart's approximation reach machine precision
    from the deep to the shallow limit.
    """
    y = omega**2 * depth / gravity
    x = y / jnp.sqrt(jnp.tanh(y))
    for _ in range(12):
        th = jnp.tanh(x)
        x = x - (x * th - y) / (th + x * (1.0 - th * th))
    return x / depth


@wave_number.defjvp
def _wave_number_jvp(gravity, primals, tangents):
    omega, depth = primals
    d_omega, d_depth = tangents
    k = wave_number(omega, depth, gravity)
    th = jnp.tanh(k * depth)
    sech2 = 1.0 - th * th
    dk = (2.0 * omega * d_omega / gravity - k**2 * sech2 * d_depth) / (th + k * depth * sech2)
    return k, dk


def group_velocity(omega, depth, gravity=9.81):
    k = wave_number(omega, depth, gravity)
    kh2 = 2.0 * k * depth
    return 0.5 * omega / k * (1.0 + kh2 / jnp.sinh(jnp.minimum(kh2, 80.0)))


def _gradient(z, axis, step, boundary):
    """Differences on the faces between cells."""
    if boundary == "periodic":
        return (jnp.roll(z, -1, axis) - z) / step
    return jnp.diff(z, axis=axis) / step


def _divergence(q, axis, step, boundary):
    """Differences of face values, back on the cells."""
    if boundary == "periodic":
        return (q - jnp.roll(q, 1, axis)) / step
    pad = [(0, 0), (0, 0)]
    pad[axis] = (1, 1)
    return jnp.diff(jnp.pad(q, pad), axis=axis) / step


def _creep(s, diffusivity, critical_slope):
    return diffusivity * s / (1.0 - (s / critical_slope) ** 2)


@functools.partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def hillslope_step(z, diffusivity, critical_slope, spacing=(1.0, 1.0), dt=1.0, boundary="closed"):
    """One explicit step of nonlinear (Roering) hillslope diffusion.

    z has shape (rows, columns), diffusivity and critical_slope are scalars, and
    spacing is the cell size (dy, dx).  Slopes must stay under critical_slope.
    The flux over a face is K s / (1 - (s / Sc)^2), axis by axis.  boundary is
    "closed" for no flux over the rim or "periodic".
    """
    return _hillslope_fwd(z, diffusivity, critical_slope, spacing, dt, boundary)[0]


def _hillslope_fwd(z, diffusivity, critical_slope, spacing, dt, boundary):
    dy, dx = spacing
    sy = _gradient(z, 0, dy, boundary)
    sx = _gradient(z, 1, dx, boundary)
    qy = _creep(sy, diffusivity, critical_slope)
    qx = _creep(sx, diffusivity, critical_slope)
    out = z + dt * (_divergence(qy, 0, dy, boundary) + _divergence(qx, 1, dx, boundary))
    return out, (sy, sx, diffusivity, critical_slope)


def _hillslope_bwd(spacing, dt, boundary, res, g):
    sy, sx, diffusivity, critical_slope = res
    dy, dx = spacing

    def face_terms(s, q_bar):
        r = (s / critical_slope) ** 2
        open_ = 1.0 - r
        s_bar = q_bar * diffusivity * (1.0 + r) / open_**2
        k_bar = jnp.sum(q_bar * s / open_)
        sc_bar = -2.0 * diffusivity / critical_slope * jnp.sum(q_bar * s * r / open_**2)
        return s_bar, k_bar, sc_bar

    # gradient and divergence are negative transposes of each other
    sy_bar, ky, scy = face_terms(sy, -dt * _gradient(g, 0, dy, boundary))
    sx_bar, kx, scx = face_terms(sx, -dt * _gradient(g, 1, dx, boundary))
    z_bar = g - _divergence(sy_bar, 0, dy, boundary) - _divergence(sx_bar, 1, dy, boundary)
    return z_bar, ky + kx, scy + scx


hillslope_step.defvjp(_hillslope_fwd, _hillslope_bwd)


def evolve(z, diffusivity, critical_slope, n_steps, **options):
    def body(state, _):
        return hillslope_step(state, diffusivity, critical_slope, **options), None

    return jax.lax.scan(body, z, None, length=n_steps)[0]
