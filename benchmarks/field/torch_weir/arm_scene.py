"""Geometry of the bench arm and of the scene that it looks at."""

import math

import torch
from torch import Tensor
from torch.autograd import Function


def _cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


def _exp_coefficients(u: Tensor):
    """A, B, C of the exponential and the derivatives of B and C over theta, all as functions of u = theta^2."""
    small = u < 1e-2
    v = torch.where(small, torch.ones_like(u), u)
    th = v.sqrt()
    a = th.sin() / th
    b = (1.0 - th.cos()) / v
    c = (1.0 - a) / v
    b1 = (a - 2.0 * b) / v
    c1 = (b - 3.0 * c) / v
    a_s = 1 - u / 6 * (1 - u / 20 * (1 - u / 42 * (1 - u / 72)))
    b_s = 0.5 * (1 - u / 12 * (1 - u / 30 * (1 - u / 56 * (1 - u / 90))))
    c_s = 1 / 6 * (1 - u / 20 * (1 - u / 42 * (1 - u / 72 * (1 - u / 110))))
    b1_s = -1 / 12 + u / 180 - u ** 2 / 6720 + u ** 3 / 453600
    c1_s = -1 / 60 + u / 1260 - u ** 2 / 60480 + u ** 3 / 4989600
    pairs = ((a_s, a), (b_s, b), (c_s, c), (b1_s, b1), (c1_s, c1))
    return tuple(torch.where(small, s, f).unsqueeze(-1) for s, f in pairs)


class TwistExp(Function):
    """Pose of a twist: exponential of se(3).

    :param twist: ``[..., 6]``, linear part first, then the rotation vector (any length, zero included)
    :return: rotation ``[..., 3, 3]`` and translation ``[..., 3]``
    """

    @staticmethod
    def forward(ctx, twist):
        v, w = twist[..., :3], twist[..., 3:]
        a, b, c, _, _ = _exp_coefficients((w * w).sum(-1))
        eye = torch.eye(3, dtype=twist.dtype, device=twist.device)
        cols = []
        for i in range(3):
            e = eye[i].expand_as(w)
            we = _cross(w, e)
            cols.append(e + a * we + b * _cross(w, we))
        rot = torch.stack(cols, dim=-1)
        wv = _cross(w, v)
        trans = v + b * wv + c * _cross(w, wv)
        ctx.save_for_backward(twist, rot)
        return rot, trans

    @staticmethod
    def backward(ctx, g_rot, g_trans):
        twist, rot = ctx.saved_tensors
        v, w = twist[..., :3], twist[..., 3:]
        _, b, c, b1, c1 = _exp_coefficients((w * w).sum(-1))

        def left_jacobian_t(z):
            wz = _cross(w, z)
            return z - b * wz + c * _cross(w, wz)

        m = g_rot @ rot.transpose(-1, -2)
        spin = torch.stack(
            (m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]), dim=-1
        )
        g_w = left_jacobian_t(spin)

        wv = _cross(w, v)
        wwv = _cross(w, wv)
        g_w = g_w + b * _cross(v, g_trans)
        g_w = g_w + c * (_cross(wv, g_trans) + _cross(v, _cross(g_trans, w)))
        g_w = g_w + w * (g_trans * (b1 * wv + c1 * wwv)).sum(-1, keepdim=True)
        return torch.cat((left_jacobian_t(g_trans), g_w), dim=-1)


class TwoLinkIK(Function):
    """Joint angles that bring the tip of a planar two-link arm to ``target``.

    :param target: ``[n, 2]``, strictly inside of the reachable annulus
    :param links: ``[2]`` link lengths, shared by all targets
    :param elbow: ``[n]`` of +1 / -1 or a plain number, sign of the second joint angle
    :return: ``[n, 2]`` angles; the first one is not wrapped
    """

    @staticmethod
    def forward(ctx, target, links, elbow=1.0):
        l1, l2 = links[0], links[1]
        elbow = torch.as_tensor(elbow, dtype=target.dtype, device=target.device)
        cos2 = ((target * target).sum(-1) - l1 * l1 - l2 * l2) / (2.0 * l1 * l2)
        q2 = elbow * torch.acos(cos2)
        q1 = torch.atan2(target[:, 1], target[:, 0]) - torch.atan2(l2 * q2.sin(), l1 + l2 * cos2)
        ctx.save_for_backward(links, cos2, q1, q2)
        return torch.stack((q1, q2), dim=-1)

    @staticmethod
    def backward(ctx, grad):
        links, cos2, q1, q2 = ctx.saved_tensors
        l1, l2 = links[0], links[1]
        q12 = q1 + q2
        near = torch.stack((q1.cos(), q1.sin()), dim=-1)
        far = torch.stack((q12.cos(), q12.sin()), dim=-1)
        # forward kinematics  l1 near + l2 far = target,  so  dq = J^-1 (dtarget - near dl1 - far dl2)
        j12, j22 = -l2 * far[:, 1], l2 * far[:, 0]
        j11, j21 = j12 - l1 * near[:, 1], j22 + l1 * near[:, 0]
        det = l1 * l2 * torch.sqrt(1.0 - cos2 * cos2)
        mu = torch.stack((j22 * grad[:, 0] - j21 * grad[:, 1], j11 * grad[:, 1] - j12 * grad[:, 0]), dim=-1)
        mu = mu / det[:, None]
        g_links = -torch.stack(((mu * near).sum(), (mu * far).sum()))
        return mu, g_links, None


def _successor(count: Tensor, width: int):
    i = torch.arange(width, device=count.device)
    inside = i < count[:, None]
    nxt = torch.where(i + 1 < count[:, None], i + 1, torch.zeros_like(i))
    return inside, nxt


class PolygonMoments(Function):
    """Area and centroid of the grasp footprints.

    :param verts: ``[p, k, 2]`` corners of simple polygons, clockwise or counter-clockwise
    :param count: ``[p]`` int64, corners in use (at least 3); what follows is padding with any finite content
    :return: area ``[p]`` (positive) and centroid ``[p, 2]``
    """

    @staticmethod
    def _edges(verts, count):
        inside, nxt = _successor(count, verts.shape[1])
        here = torch.where(inside[..., None], verts - verts[:, :1], torch.zeros_like(verts))
        there = here.gather(1, nxt[..., None].expand_as(here))
        cr = here[..., 0] * there[..., 1] - there[..., 0] * here[..., 1]
        return inside, nxt, here, there, cr * inside.to(cr.dtype)

    @staticmethod
    def forward(ctx, verts, count):
        _, _, here, there, cr = PolygonMoments._edges(verts, count)
        signed = 0.5 * cr.sum(1)
        local = ((here + there) * cr[..., None]).sum(1) / (6.0 * signed[:, None])
        ctx.save_for_backward(verts, count)
        return signed.abs(), local + verts[:, 0]

    @staticmethod
    def backward(ctx, g_area, g_centroid):
        verts, count = ctx.saved_tensors
        # Both outputs follow a shift of all corners (one stays, one moves along), so that their derivatives do not
        # depend on the origin and the shifted corners will do.
        inside, nxt, here, there, cr = PolygonMoments._edges(verts, count)
        signed = 0.5 * cr.sum(1)
        local = ((here + there) * cr[..., None]).sum(1) / (6.0 * signed[:, None])

        g_first = g_centroid / (6.0 * signed[:, None])
        g_signed = g_area * signed.sign() - (g_centroid * local).sum(-1) / signed
        g_cr = ((here + there) * g_first[:, None]).sum(-1) + 0.5 * g_signed[:, None]
        g_cr = g_cr * inside.to(g_cr.dtype)

        direct = g_first[:, None] * cr[..., None]
        g_here = direct + g_cr[..., None] * torch.stack((there[..., 1], -there[..., 0]), dim=-1)
        g_there = direct + g_cr[..., None] * torch.stack((-here[..., 1], here[..., 0]), dim=-1)
        return g_here.scatter_add(1, nxt[..., None].expand_as(g_there), g_there), None


def _latlong(dirs: Tensor, rows: int, cols: int):
    phi = torch.atan2(dirs[:, 1], dirs[:, 0])
    rho = torch.hypot(dirs[:, 0], dirs[:, 1])
    theta = torch.atan2(rho, dirs[:, 2])
    # half a texel of halo on each side: texel (i, j) of the map sits at (i + 1, j + 1) of the padded one
    u = (phi / (2.0 * math.pi) + 0.5) * cols + 0.5
    v = theta / math.pi * rows + 0.5
    return u, v, rho


class LatLongLookup(Function):
    """Radiance of an equirectangular environment map.

    Bilinear between texel centres; columns wrap around (azimuth -pi .. pi), rows stop at the poles.

    :param env: ``[rows, cols, channels]``
    :param dirs: ``[n, 3]``, any positive length, not exactly along the z axis
    :return: ``[n, channels]``
    """

    @staticmethod
    def forward(ctx, env, dirs):
        rows, cols, _ = env.shape
        halo = torch.cat((env[:, -1:], env, env[:, :1]), dim=1)
        halo = torch.cat((halo[:1], halo, halo[-1:]), dim=0)
        u, v, _ = _latlong(dirs, rows, cols)
        j = u.floor().long().clamp(0, cols)
        i = v.floor().long().clamp(0, rows)
        fu, fv = (u - j)[:, None], (v - i)[:, None]
        top = (1 - fu) * halo[i, j] + fu * halo[i, j + 1]
        bottom = (1 - fu) * halo[i + 1, j] + fu * halo[i + 1, j + 1]
        ctx.save_for_backward(halo, dirs, i, j)
        return (1 - fv) * top + fv * bottom

    @staticmethod
    def backward(ctx, grad):
        halo, dirs, i, j = ctx.saved_tensors
        rows, cols = halo.shape[0] - 2, halo.shape[1] - 2
        u, v, rho = _latlong(dirs, rows, cols)
        fu, fv = (u - j)[:, None], (v - i)[:, None]

        g_env = g_dirs = None
        if ctx.needs_input_grad[0]:
            g = torch.zeros_like(halo)
            for di, wi in ((0, 1 - fv), (1, fv)):
                for dj, wj in ((0, 1 - fu), (1, fu)):
                    g.index_put_((i + di, j + dj), wi * wj * grad, accumulate=True)
            # fold the halo back onto the border texels
            g[1] += g[0]
            g[-2] += g[-1]
            g[:, 1] += g[:, 0]
            g[:, -2] += g[:, -1]
            g_env = g[1:-1, 1:-1].contiguous()
        if ctx.needs_input_grad[1]:
            east = (1 - fv) * (halo[i, j + 1] - halo[i, j]) + fv * (halo[i + 1, j + 1] - halo[i + 1, j])
            south = (1 - fu) * (halo[i + 1, j] - halo[i, j]) + fu * (halo[i + 1, j + 1] - halo[i, j + 1])
            g_phi = (grad * east).sum(-1) * cols / (2.0 * math.pi)
            g_theta = (grad * south).sum(-1) * rows / math.pi
            x, y, z = dirs.unbind(-1)
            r2 = rho * rho + z * z
            g_dirs = torch.stack(
                (
                    -g_phi * y / rho ** 2 + g_theta * z * x / (rho * r2),
                    g_phi * x / rho ** 2 + g_theta * z * y / (rho * r2),
                    -g_theta * rho / r2,
                ),
                dim=-1,
            )
        return g_env, g_dirs


def reach_cost(params, targets, elbow):
    """Travel of the joints from ``params["home"]`` to each target, weighted by ``params["effort"]``."""
    q = TwoLinkIK.apply(targets, params["links"], elbow)
    return (params["effort"] * (q - params["home"]) ** 2).sum()


def relight(env: Tensor, twist: Tensor, dirs: Tensor) -> Tensor:
    """Look up directions given in the camera frame of ``twist``."""
    rot, _ = TwistExp.apply(twist)
    return LatLongLookup.apply(env, dirs @ rot.T)
