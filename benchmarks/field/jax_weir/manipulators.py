"""Rigid motions, serial arms and the small rasteriser of the pose estimator."""
import jax
import jax.numpy as jnp
import numpy as np


# ----------------------------------------------------------------------------- screws
def _power_series(t, first, terms=9):
    """sum_k (-t)^k / (2k + first)! and its derivative in t."""
    val, der = 0.0, 0.0
    for k in reversed(range(terms)):
        c = (-1.0) ** k / float(_factorial(2 * k + first))
        val = val + c * t**k
        if k:
            der = der + k * c * t ** (k - 1)
    return val, der


def _factorial(n):
    return 1 if n < 2 else n * _factorial(n - 1)


def _screw_coefficients(omega):
    """sin(a)/a, (1-cos a)/a^2, (a-sin a)/a^3 and derivatives of the last two wrt a^2."""
    t = jnp.dot(omega, omega)
    small = t < 1.0
    ts = jnp.where(small, t, 0.0)
    tl = jnp.where(small, 1.0, t)
    a = jnp.sqrt(tl)
    s, c = jnp.sin(a), jnp.cos(a)

    p_a, _ = _power_series(ts, 1)
    p_b, p_db = _power_series(ts, 2)
    p_c, p_dc = _power_series(ts, 3)
    ca = jnp.where(small, p_a, s / a)
    cb = jnp.where(small, p_b, (1 - c) / tl)
    cc = jnp.where(small, p_c, (a - s) / (a * tl))
    db = jnp.where(small, p_db, 0.5 * (a * s - 2 * (1 - c)) / tl**2)
    dc = jnp.where(small, p_dc, 0.5 * (3 * s - 2 * a - a * c) / (a * tl**2))
    return ca, cb, cc, db, dc


def _rotate(omega, ca, cb, p):
    w = jnp.cross(omega, p)
    return p + ca * w + cb * jnp.cross(omega, w)


@jax.custom_vjp
def screw_displacement(twist, points):
    """Move points by the exponential of a twist.

    :param twist: ``(6,)``, rotation vector first, then the translational part. Any angle,
        including the pure translation ``omega = 0``.
    :param points: ``(n, 3)``
    :return: ``exp(twist) . points``, ``(n, 3)``
    """
    return _screw_fwd(twist, points)[0]


def _screw_fwd(twist, points):
    omega, v = twist[:3], twist[3:]
    ca, cb, cc, _, _ = _screw_coefficients(omega)
    turned = _rotate(omega, ca, cb, points)
    wv = jnp.cross(omega, v)
    shift = v + cb * wv + cc * jnp.cross(omega, wv)
    return turned + shift, (twist, turned)


def _screw_bwd(res, g):
    twist, turned = res
    omega, v = twist[:3], twist[3:]
    ca, cb, cc, db, dc = _screw_coefficients(omega)

    def left_jacobian_t(q):
        w = jnp.cross(-omega, q)
        return q + cb * w + cc * jnp.cross(-omega, w)

    d_points = _rotate(-omega, ca, cb, g)
    f = g.sum(axis=0)
    d_v = left_jacobian_t(f)
    # rotation of the points: delta y = (J delta_omega) x (R p)
    d_omega = left_jacobian_t(jnp.cross(turned, g).sum(axis=0))
    # change of J(omega) v
    wv = jnp.cross(omega, v)
    d_omega = d_omega + cb * jnp.cross(v, f)
    d_omega = d_omega + cc * (jnp.cross(wv, f) + jnp.cross(v, jnp.cross(f, omega)))
    d_omega = d_omega + 2.0 * omega * (db * jnp.dot(f, wv) + dc * jnp.dot(f, jnp.cross(omega, wv)))
    return jnp.concatenate([d_omega, d_v]), d_points


screw_displacement.defvjp(_screw_fwd, _screw_bwd)


# ----------------------------------------------------------------------------- serial arms
class SerialArm:
    """Serial manipulator in the classic Denavit-Hartenberg convention.

    Parameters
    ----------
    a, alpha, d, theta : sequence of float
        One entry per joint. ``theta`` is the offset of a revolute joint (and the fixed angle of a
        prismatic one), ``d`` the offset of a prismatic joint.
    joints : str
        One letter per joint, ``"R"`` or ``"P"``.

    Examples
    --------
    >>> scara = SerialArm([.3, .25, 0.], [0., 0., 0.], [.4, 0., 0.], [0., 0., 0.], "RRP")
    """

    def __init__(self, a, alpha, d, theta, joints="RRRRRR"):
        self.a, self.alpha, self.d, self.theta = (np.asarray(v, dtype=float) for v in (a, alpha, d, theta))
        self.prismatic = np.array([j == "P" for j in joints])
        if not len(joints) == len(self.a) == len(self.alpha) == len(self.d) == len(self.theta):
            raise ValueError("one entry per joint, please")

    def frames(self, q):
        """Homogeneous transforms of base and links, ``(n + 1, 4, 4)``."""
        out = [jnp.eye(4, dtype=q.dtype)]
        for i, sliding in enumerate(self.prismatic):
            theta = self.theta[i] + (0.0 if sliding else q[i])
            d = self.d[i] + (q[i] if sliding else 0.0)
            ct, st = jnp.cos(theta), jnp.sin(theta)
            ca, sa = np.cos(self.alpha[i]), np.sin(self.alpha[i])
            rows = [
                [ct, -st * ca, st * sa, self.a[i] * ct],
                [st, ct * ca, -ct * sa, self.a[i] * st],
                [0.0, sa, ca, d],
                [0.0, 0.0, 0.0, 1.0],
            ]
            out.append(out[-1] @ jnp.array([[jnp.asarray(e, q.dtype) for e in r] for r in rows]))
        return jnp.stack(out)

    def tool_position(self, q, tool):
        """Position of the tool tip in the base frame, by the geometric Jacobian.

        ``q`` are the joint coordinates (rad, m) and ``tool`` is the tip in the last link's frame.
        Both are differentiable; the table of the arm is constant.
        """

        @jax.custom_vjp
        def tip(q, tool):
            last = self.frames(q)[-1]
            return last[:3, :3] @ tool + last[:3, 3]

        def tip_fwd(q, tool):
            frames = self.frames(q)
            position = frames[-1, :3, :3] @ tool + frames[-1, :3, 3]
            return position, (frames, position)

        def tip_bwd(res, g):
            frames, position = res
            axis = frames[:-1, :3, 2]
            lever = position - frames[:-1, :3, 3]
            turning = jnp.cross(axis, lever) @ g
            sliding = frames[1:, :3, 2] @ g
            return jnp.where(self.prismatic, sliding, turning), frames[-1, :3, :3].T @ g

        tip.defvjp(tip_fwd, tip_bwd)
        return tip(q, tool)

    def reach(self, q, tool, target, steps=100, rate=0.3):
        """Gradient inverse kinematics."""
        loss = lambda q: 0.5 * jnp.sum((self.tool_position(q, tool) - target) ** 2)
        step = jax.jit(lambda q: q - rate * jax.grad(loss)(q))
        for _ in range(steps):
            q = step(q)
        return q


# ----------------------------------------------------------------------------- raster
def _corner_values(depth, faces, pix_to_face, bary):
    covered = pix_to_face >= 0
    corners = faces[jnp.where(covered, pix_to_face, 0)]
    # the rasteriser writes -1 into uncovered pixels
    bary = jnp.where(covered[:, None], bary, 1.0 / 3.0)
    return covered, corners, bary, depth[corners]


@jax.custom_vjp
def perspective_interpolate(attributes, depth, faces, pix_to_face, bary):
    """Perspective correct interpolation of vertex attributes.

    Args:
        attributes (Array): ``[V, D]`` vertex attributes (colour, normals, uv ...).
        depth (Array): ``[V]`` camera depth of the vertices, positive.
        faces (Array): ``[F, 3]`` integer vertex ids.
        pix_to_face (Array): ``[P]`` visible face of each pixel, -1 for the background.
        bary (Array): ``[P, 3]`` screen space barycentric coordinates; ignored on the background.

    Returns:
        Array: ``[P, D]``, zeros on the background.
    """
    return _interp_fwd(attributes, depth, faces, pix_to_face, bary)[0]


def _interp_fwd(attributes, depth, faces, pix_to_face, bary):
    covered, corners, b, z = _corner_values(depth, faces, pix_to_face, bary)
    w = b / z
    total = w.sum(-1, keepdims=True)
    w = w / total
    image = jnp.einsum("pk,pkd->pd", w, attributes[corners])
    out = jnp.where(covered[:, None], image, 0.0)
    return out, (attributes, depth, covered, corners, b, z, w, total, image)


def _interp_bwd(res, g):
    attributes, depth, covered, corners, b, z, w, total, image = res
    fg = covered[:, None].astype(g.dtype)

    contrib = (w * fg)[:, :, None] * g[:, None, :]
    d_attr = jnp.zeros_like(attributes).at[corners].add(contrib)

    d_w = jnp.einsum("pd,pkd->pk", g, attributes[corners] - image[:, None, :]) / total
    d_bary = fg * d_w / z
    d_depth = jnp.zeros_like(depth).at[corners].add(-d_w * b / z**2)
    return d_attr, d_depth, None, None, d_bary


perspective_interpolate.defvjp(_interp_fwd, _interp_bwd)
