# Differentiable toy physics for the system-identification experiments.

from functools import partial

import jax
import jax.numpy as jnp


# --- springs ---------------------------------------------------------------

@jax.custom_vjp
def spring_forces(x, stiffness, rest, springs):
    i, j = springs[:, 0], springs[:, 1]
    d = x[j] - x[i]
    length = jnp.sqrt(jnp.sum(d * d, axis=-1))
    pull = (stiffness * (length - rest) / length)[:, None] * d
    return jnp.zeros_like(x).at[i].add(pull).at[j].add(-pull)


def _spring_forces_fwd(x, stiffness, rest, springs):
    return spring_forces(x, stiffness, rest, springs), (x, stiffness, rest, springs)


def _spring_forces_bwd(res, g):
    x, stiffness, rest, springs = res
    i, j = springs[:, 0], springs[:, 1]
    d = x[j] - x[i]
    length = jnp.sqrt(jnp.sum(d * d, axis=-1))
    n = d / length[:, None]
    along = jnp.sum((g[i] - g[j]) * n, axis=-1)
    dd = (stiffness * along)[:, None] * n
    gx = jnp.zeros_like(x).at[j].add(dd).at[i].add(-dd)
    return gx, (length - rest) * along, -stiffness * along, None


spring_forces.defvjp(_spring_forces_fwd, _spring_forces_bwd)


# --- time stepping -----------------------------------------------------------

@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def leapfrog(force, n_steps, q, p, theta, dt):
    def step(carry, _):
        return _kick_drift_kick(force, *carry, theta, dt)[:2], None

    (q, p), _ = jax.lax.scan(step, (q, p), None, length=n_steps)
    return q, p


def _kick_drift_kick(force, q, p, theta, dt):
    half = p + 0.5 * dt * force(q, theta)
    q = q + dt * half
    p = half + 0.5 * dt * force(q, theta)
    return q, p, half


def _leapfrog_fwd(force, n_steps, q, p, theta, dt):
    def step(carry, _):
        q, p = carry
        q1, p1, half = _kick_drift_kick(force, q, p, theta, dt)
        return (q1, p1), (q, half)

    out, trace = jax.lax.scan(step, (q, p), None, length=n_steps)
    return out, (trace, theta, dt)


def _leapfrog_bwd(force, n_steps, res, g):
    trace, theta, dt = res
    tmap = jax.tree_util.tree_map

    def step(carry, saved):
        gq, gp, gtheta, gdt = carry
        q, half = saved
        f, pull = jax.vjp(force, q, theta)
        # second kick
        dq, dth = pull(0.5 * dt * gp)
        gdt = gdt + 0.5 * jnp.sum(gp * f)
        gq = gq + dq
        gtheta = tmap(jnp.add, gtheta, dth)
        # drift
        gdt = gdt + jnp.sum(gq * half)
        gp = gp + dt * gq
        # first kick
        dq, dth = pull(0.5 * dt * gp)
        gdt = gdt + 0.5 * jnp.sum(gp * f)
        gq = gq + dq
        gtheta = tmap(jnp.add, gtheta, dth)
        return (gq, gp, gtheta, gdt), None

    zero = (*g, tmap(jnp.zeros_like, theta), jnp.zeros_like(dt))
    (gq, gp, gtheta, gdt), _ = jax.lax.scan(step, zero, trace, reverse=True)
    return gq, gp, gtheta, gdt


leapfrog.defvjp(_leapfrog_fwd, _leapfrog_bwd)


def make_rk4(field, n_steps, dt):
    # field(t, y, theta) -> dy/dt, y and theta any trees; returns the trajectory
    # after each step. Only the visited states are stored.

    tmap = jax.tree_util.tree_map

    def axpy(a, x, y):
        return tmap(lambda u, v: a * u + v, x, y)

    def step(t, y, theta):
        k1 = field(t, y, theta)
        k2 = field(t + dt / 2, axpy(dt / 2, k1, y), theta)
        k3 = field(t + dt / 2, axpy(dt / 2, k2, y), theta)
        k4 = field(t + dt, axpy(dt, k3, y), theta)
        return tmap(lambda v, a, b, c, d: v + dt / 6 * (a + 2 * b + 2 * c + d), y, k1, k2, k3, k4)

    times = [k * dt for k in range(n_steps)]

    @jax.custom_vjp
    def integrate(y0, theta):
        def body(y, t):
            y = step(t, y, theta)
            return y, y

        return jax.lax.scan(body, y0, jnp.asarray(times))[1]

    def fwd(y0, theta):
        traj = integrate(y0, theta)
        starts = tmap(lambda a, b: jnp.concatenate([a[None], b[:-1]]), y0, traj)
        return traj, (starts, theta)

    def bwd(res, g):
        starts, theta = res

        def body(carry, inp):
            lam, gtheta = carry
            t, y, g_t = inp
            lam = tmap(jnp.add, lam, g_t)
            _, pull = jax.vjp(lambda y, th: step(t, y, th), y, theta)
            lam, dth = pull(lam)
            return (lam, tmap(jnp.add, gtheta, dth)), None

        init = (tmap(lambda a: jnp.zeros_like(a[0]), g), tmap(jnp.zeros_like, theta))
        (lam, gtheta), _ = jax.lax.scan(body, init, (jnp.asarray(times), starts, g), reverse=True)
        return lam, gtheta

    integrate.defvjp(fwd, bwd)
    return integrate


def _driven_pendulum(t, y, theta):
    drive = theta["drive"]["amp"] * jnp.cos(theta["drive"]["freq"] * t)
    return {
        "angle": y["rate"],
        "rate": -theta["g_over_l"] * jnp.sin(y["angle"]) - theta["damping"] * y["rate"] + drive,
    }


pendulum_path = make_rk4(_driven_pendulum, n_steps=12, dt=0.1)


# --- finite volumes ------------------------------------------------------------

def _with_ghosts(u, bc):
    if bc == "periodic":
        return jnp.concatenate([u[-1:], u, u[:1]])
    if bc == "outflow":
        return jnp.concatenate([u[:1], u, u[-1:]])
    raise ValueError(bc)


def _fold_ghosts(gu, bc):
    inner = gu[1:-1]
    if bc == "periodic":
        return inner.at[-1].add(gu[0]).at[0].add(gu[-1])
    return inner.at[0].add(gu[0]).at[-1].add(gu[-1])


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def burgers_step(u, ratio, bc="periodic"):
    w = _with_ghosts(u, bc)
    left, right = w[:-1], w[1:]
    speed = jnp.maximum(jnp.abs(left), jnp.abs(right))
    flux = 0.25 * (left**2 + right**2) - 0.5 * speed * (right - left)
    return u - ratio * (flux[1:] - flux[:-1])


def _burgers_fwd(u, ratio, bc):
    return burgers_step(u, ratio, bc), (u, ratio)


def _burgers_bwd(bc, res, g):
    u, ratio = res
    w = _with_ghosts(u, bc)
    left, right = w[:-1], w[1:]
    speed = jnp.maximum(jnp.abs(left), jnp.abs(right))
    flux = 0.25 * (left**2 + right**2) - 0.5 * speed * (right - left)

    gflux = ratio * (jnp.pad(g, (0, 1)) - jnp.pad(g, (1, 0)))
    gw = jnp.zeros_like(w)
    gw = gw.at[:-1].add(gflux * 0.5 * (left + speed))
    gw = gw.at[1:].add(gflux * 0.5 * (right - speed))
    return g + _fold_ghosts(gw, bc), -jnp.sum(g * (flux[1:] - flux[:-1]))


burgers_step.defvjp(_burgers_fwd, _burgers_bwd)


def _face(a, b):
    return 2 * a * b / (a + b)


def _face_slopes(a, b):
    s = (a + b) ** 2
    return 2 * b**2 / s, 2 * a**2 / s


@partial(jax.custom_vjp, nondiff_argnames=("dt", "dx"))
def heat_step(temp, kappa, dt, dx):
    # explicit step of d temp / dt = div(kappa grad temp), insulated border
    c = dt / dx**2
    ky = _face(kappa[:-1], kappa[1:])
    kx = _face(kappa[:, :-1], kappa[:, 1:])
    qy = ky * (temp[1:] - temp[:-1])
    qx = kx * (temp[:, 1:] - temp[:, :-1])
    out = temp.at[:-1].add(c * qy).at[1:].add(-c * qy)
    return out.at[:, :-1].add(c * qx).at[:, 1:].add(-c * qx)


def _heat_fwd(temp, kappa, dt, dx):
    return heat_step(temp, kappa, dt, dx), (temp, kappa)


def _heat_bwd(dt, dx, res, g):
    temp, kappa = res
    c = dt / dx**2
    # the operator is self-adjoint in temp
    gtemp = heat_step(g, kappa, dt, dx)

    gky = -c * (g[1:] - g[:-1]) * (temp[1:] - temp[:-1])
    gkx = -c * (g[:, 1:] - g[:, :-1]) * (temp[:, 1:] - temp[:, :-1])
    up, down = _face_slopes(kappa[:-1], kappa[1:])
    left, right = _face_slopes(kappa[:, :-1], kappa[:, 1:])
    gk = jnp.zeros_like(kappa)
    gk = gk.at[:-1].add(gky * up).at[1:].add(gky * down)
    gk = gk.at[:, :-1].add(gkx * left).at[:, 1:].add(gkx * right)
    return gtemp, gk


heat_step.defvjp(_heat_fwd, _heat_bwd)


# --- particles -----------------------------------------------------------------

def _poly6(h):
    return 315.0 / (64.0 * jnp.pi * h**9)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def sph_density(pos, mass, nbr, h):
    # nbr: (N, K) neighbour ids, -1 fills up short rows; self is not listed
    ok = nbr >= 0
    jd = jnp.where(ok, nbr, 0)
    d = pos[:, None] - pos[jd]
    gap = jnp.maximum(h * h - jnp.sum(d * d, -1), 0.0)
    c = _poly6(h)
    return c * (mass * h**6 + jnp.sum(jnp.where(ok, mass[jd] * gap**3, 0.0), -1))


def _sph_fwd(pos, mass, nbr, h):
    return sph_density(pos, mass, nbr, h), (pos, mass, nbr)


def _sph_bwd(h, res, g):
    pos, mass, nbr = res
    ok = nbr >= 0
    jd = jnp.where(ok, nbr, 0)
    d = pos[:, None] - pos[jd]
    gap = jnp.where(ok, jnp.maximum(h * h - jnp.sum(d * d, -1), 0.0), 0.0)
    c = _poly6(h)
    f = (-6 * c * g[:, None] * mass[jd] * gap**2)[..., None] * d
    gpos = f.sum(1)
    gpos = gpos.at[jd].add(-f)
    gmass = (c * h**6 * g).at[jd].add(c * g[:, None] * gap**3)
    return gpos, gmass, None


sph_density.defvjp(_sph_fwd, _sph_bwd)


# --- demos ---------------------------------------------------------------------

def cloth(n, spacing=0.1):
    ids = jnp.arange(n * n).reshape(n, n)
    springs = jnp.concatenate([
        jnp.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()], -1),
        jnp.stack([ids[:-1].ravel(), ids[1:].ravel()], -1),
        jnp.stack([ids[:-1, :-1].ravel(), ids[1:, 1:].ravel()], -1),
    ])
    yy, xx = jnp.meshgrid(jnp.arange(n) * spacing, jnp.arange(n) * spacing, indexing="ij")
    x = jnp.stack([xx.ravel(), yy.ravel(), 0.02 * jnp.sin(9.0 * xx.ravel())], -1)
    return x, springs


def stretched_cloth_loss(stiffness, n=4):
    x, springs = cloth(n)
    x = x * jnp.array([1.3, 0.9, 1.0])
    rest = jnp.full((len(springs),), 0.1)

    def force(q, k):
        return spring_forces(q, k, rest, springs)

    q, _ = leapfrog(force, 10, x, jnp.zeros_like(x), stiffness, jnp.asarray(0.02))
    return jnp.mean((q - x) ** 2)


def shock_loss(amp):
    x = jnp.linspace(0.0, 1.0, 32, endpoint=False)
    u = 1.0 + amp * jnp.sin(2 * jnp.pi * x)
    for _ in range(8):
        u = burgers_step(u, jnp.asarray(0.3), "periodic")
    return jnp.sum(u * jnp.cos(2 * jnp.pi * x))


if __name__ == "__main__":
    x, springs = cloth(4)
    print(jax.grad(stretched_cloth_loss)(jnp.full((len(springs),), 50.0)))
    print(jax.grad(shock_loss)(0.4))

    y0 = {"angle": jnp.array([0.3, 1.2]), "rate": jnp.array([0.0, -0.5])}
    theta = {"g_over_l": jnp.array(9.81), "damping": jnp.array(0.2),
             "drive": {"amp": jnp.array(0.7), "freq": jnp.array(2.0)}}
    print(jax.grad(lambda th: pendulum_path(y0, th)["angle"][-1].sum())(theta))

    key = jax.random.PRNGKey(0)
    T = jax.random.normal(key, (8, 10))
    kappa = jnp.exp(0.5 * jax.random.normal(key, (8, 10)))
    print(jax.grad(lambda k: jnp.sum(heat_step(T, k, 0.05, 1.0) ** 2))(kappa).shape)

    pos = jax.random.uniform(key, (6, 3))
    nbr = jnp.array([[1, 2, 3], [0, 4, -1], [0, 3, 5], [0, 2, -1], [1, 5, -1], [2, 4, -1]])
    print(sph_density(pos, jnp.ones(6), nbr, 0.8))
