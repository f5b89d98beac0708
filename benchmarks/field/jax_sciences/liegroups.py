import jax
import jax.numpy as jnp
from jax import custom_jvp, custom_vjp
from typing import NamedTuple


def hat(w):
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    o = jnp.zeros_like(x)
    return jnp.stack([jnp.stack([o, -z, y], -1),
                      jnp.stack([z, o, -x], -1),
                      jnp.stack([-y, x, o], -1)], -2)


def _coeffs(w):
    """sin(t)/t, (1-cos t)/t^2, (t - sin t)/t^3, with t = |w|."""
    t2 = jnp.sum(w * w, -1)
    tiny = t2 < 1e-2
    t2s = jnp.where(tiny, 1.0, t2)
    t = jnp.sqrt(t2s)
    a = jnp.where(tiny, 1 - t2 / 6 * (1 - t2 / 20 * (1 - t2 / 42)), jnp.sin(t) / t)
    b = jnp.where(tiny, 0.5 - t2 / 24 * (1 - t2 / 30 * (1 - t2 / 56)),
                  2 * jnp.sin(t / 2) ** 2 / t2s)
    c = jnp.where(tiny, 1 / 6 - t2 / 120 * (1 - t2 / 42 * (1 - t2 / 72)),
                  (t - jnp.sin(t)) / (t2s * t))
    return a[..., None, None], b[..., None, None], c[..., None, None]


@custom_jvp
def so3_exp(omega):
    """Exponential map so(3) -> SO(3). omega: [..., 3] -> [..., 3, 3]."""
    a, b, _ = _coeffs(omega)
    W = hat(omega)
    return jnp.eye(3, dtype=W.dtype) + a * W + b * (W @ W)


@so3_exp.defjvp
def _so3_exp_jvp(primals, tangents):
    (omega,), (domega,) = primals, tangents
    a, b, c = _coeffs(omega)
    W = hat(omega)
    W2 = W @ W
    eye = jnp.eye(3, dtype=W.dtype)
    R = eye + a * W + b * W2
    Jl = eye + b * W + c * W2           # left Jacobian
    twist = jnp.einsum("...ij,...j->...i", Jl, domega)
    return R, hat(twist) @ R


# ---- quaternions, scalar first ------------------------------------------------

def conj(q):
    return q * jnp.array([1.0, -1.0, -1.0, -1.0], dtype=q.dtype)


def _hamilton(a, b):
    w = a[..., :1] * b[..., :1] - jnp.sum(a[..., 1:] * b[..., 1:], -1, keepdims=True)
    v = a[..., :1] * b[..., 1:] + b[..., :1] * a[..., 1:] + jnp.cross(a[..., 1:], b[..., 1:])
    return jnp.concatenate([w, v], -1)


@custom_vjp
def quat_mul(a, b):
    """Hamilton product of two quaternion arrays of the same shape [..., 4]."""
    return _hamilton(a, b)


quat_mul.defvjp(
    lambda a, b: (_hamilton(a, b), (a, b)),
    lambda res, g: (_hamilton(g, conj(res[1])), _hamilton(g, conj(res[0]))),
)


def integrate_attitude(q0, body_rates, dt):
    """Strapdown integration; body_rates [T, 3], returns the last attitude [4]."""
    def step(q, w):
        half = 0.5 * dt * w
        dq = jnp.concatenate([jnp.ones(1, half.dtype), half])
        q = quat_mul(q, dq)
        return q / jnp.linalg.norm(q), None
    return jax.lax.scan(step, q0, body_rates)[0]


@jax.custom_gradient
def quat_rotate(q, v):
    """Rotate v [N, 3] by q [N, 4]; q need not have unit length, it is normalised here."""
    norm = jnp.sqrt(jnp.sum(q * q, -1, keepdims=True))
    u = q / norm
    s, p = u[:, :1], u[:, 1:]
    pxv = jnp.cross(p, v)
    out = v + 2 * s * pxv + 2 * jnp.cross(p, pxv)

    def dot(x, y):
        return jnp.sum(x * y, -1, keepdims=True)

    def vjp(g):
        pxg = jnp.cross(p, g)
        dv = g - 2 * s * pxg + 2 * jnp.cross(p, pxg)
        ds = 2 * dot(g, pxv)
        dp = 2 * s * jnp.cross(v, g) + 2 * (g * dot(p, v) + v * dot(p, g) - 2 * p * dot(g, v))
        du = jnp.concatenate([ds, dp], -1)
        return (du - u * dot(u, du)) / norm, dv

    return out, vjp


# ---- planar manipulator -------------------------------------------------------

class ChainState(NamedTuple):
    joints: jax.Array   # [n, 2] position of the distal end of each link
    heading: jax.Array  # [] absolute angle of the last link


@custom_vjp
def planar_chain(q, lengths):
    """Forward kinematics of an n-link planar arm.

    Args:
      q: [n] relative joint angles (radians).
      lengths: [n] link lengths.

    Returns:
      ChainState with all the link ends and the heading of the gripper.
    """
    return _chain_fwd(q, lengths)[0]


def _chain_fwd(q, lengths):
    phi = jnp.cumsum(q)
    seg = jnp.stack([jnp.cos(phi), jnp.sin(phi)], -1)
    state = ChainState(jnp.cumsum(lengths[:, None] * seg, 0), phi[-1])
    return state, (seg, lengths)


def _chain_bwd(res, ct):
    seg, lengths = res
    # each segment moves every end that lies beyond it
    g_seg = jnp.cumsum(ct.joints[::-1], 0)[::-1]
    d_len = jnp.sum(g_seg * seg, -1)
    normal = jnp.stack([-seg[:, 1], seg[:, 0]], -1)
    d_phi = lengths * jnp.sum(g_seg * normal, -1)
    d_q = jnp.cumsum(d_phi[::-1])[::-1]
    d_q = d_q.at[-1].add(ct.heading)
    return d_q, d_len


planar_chain.defvjp(_chain_fwd, _chain_bwd)


def reach_cost(q, lengths, target, target_heading, w=0.1):
    st = planar_chain(q, lengths)
    return jnp.sum((st.joints[-1] - target) ** 2) + w * (st.heading - target_heading) ** 2
