import torch
from torch.autograd import Function


class MengerCurvature(Function):
    """Signed curvature 2 cross(b-a, c-b) / (|b-a||c-b||c-a|) along (..., n, 2) polylines; closed=True wraps around."""

    @staticmethod
    def forward(ctx, points, closed=False):
        if closed:
            a, b, c = points.roll(1, -2), points, points.roll(-1, -2)
        else:
            a, b, c = points[..., :-2, :], points[..., 1:-1, :], points[..., 2:, :]
        u, v, w = b - a, c - b, c - a
        lu, lv, lw = u.norm(dim=-1), v.norm(dim=-1), w.norm(dim=-1)
        kappa = 2.0 * (u[..., 0] * v[..., 1] - u[..., 1] * v[..., 0]) / (lu * lv * lw)
        ctx.save_for_backward(u, v, w, lu, lv, lw, kappa)
        ctx.closed = closed
        return kappa

    @staticmethod
    def backward(ctx, grad):
        u, v, w, lu, lv, lw, kappa = ctx.saved_tensors
        s = (2.0 * grad / (lu * lv * lw)).unsqueeze(-1)
        gk = (grad * kappa).unsqueeze(-1)
        du = s * torch.stack([v[..., 1], -v[..., 0]], -1) - gk * u / lu.unsqueeze(-1) ** 2
        dv = s * torch.stack([-u[..., 1], u[..., 0]], -1) - gk * v / lv.unsqueeze(-1) ** 2
        dw = -gk * w / lw.unsqueeze(-1) ** 2
        da, db, dc = -du - dw, du - dv, dv + dw
        if ctx.closed:
            return da.roll(1, -2) + db + dc.roll(-1, -2), None
        n = grad.shape[-1] + 2
        out = grad.new_zeros(*grad.shape[:-1], n, 2)
        out[..., :-2, :] += da
        out[..., 1:-1, :] += db
        out[..., 2:, :] += dc
        return out, None


def fairness(points, closed=False):
    k = MengerCurvature.apply(points, closed)
    return (k**2).mean()


class SuperquadricField(Function):
    # inside-outside function, 0.1 <= exps <= 1.9

    @staticmethod
    def forward(points, size, exps):
        e1, e2 = exps.unbind(-1)
        u = (points / size).abs()
        s = u[..., 0] ** (2 / e2) + u[..., 1] ** (2 / e2)
        return s ** (e2 / e1) + u[..., 2] ** (2 / e1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        points, size, exps = ctx.saved_tensors
        e1, e2 = exps.unbind(-1)
        r = points / size
        u = r.abs()
        hot = u > 0
        logu = torch.where(hot, u, 1.0).log()
        pxy = u[..., :2] ** (2 / e2)
        s = pxy.sum(-1)
        on = s > 0
        ss = torch.where(on, s, 1.0)
        outer = ss ** (e2 / e1)
        lean = torch.where(on, outer / ss, 0.0)  # s^(e2/e1 - 1)
        outer = torch.where(on, outer, 0.0)
        pz = u[..., 2] ** (2 / e1)

        rs = torch.where(hot, r, 1.0)
        d_r = torch.cat([(2 / e1) * lean[..., None] * pxy, ((2 / e1) * pz)[..., None]], -1)
        d_r = torch.where(hot, d_r / rs, 0.0) * grad[..., None]
        g_points = d_r / size
        g_size = (-d_r * r / size).reshape(-1, 3).sum(0)

        plogu = (pxy * logu[..., :2]).sum(-1)
        d_e2 = outer * ss.log() / e1 - 2 / (e1 * e2) * lean * plogu
        d_e1 = -(e2 / e1**2) * outer * ss.log() - 2 / e1**2 * pz * logu[..., 2]
        return g_points, g_size, torch.stack([(grad * d_e1).sum(), (grad * d_e2).sum()])


def _small_rotation(rot):
    rx, ry, rz = rot.unbind(-1)
    one = torch.ones_like(rx)
    return torch.stack([one, -rz, ry, rz, one, -rx, -ry, rx, one], -1).reshape(3, 3)


class HelmertTransform(Function):
    @staticmethod
    def forward(ctx, xyz, shift, rot, scale):
        turned = xyz @ _small_rotation(rot).T
        ctx.save_for_backward(xyz, rot, scale, turned)
        return shift + scale * turned

    @staticmethod
    def backward(ctx, grad):
        xyz, rot, scale, turned = ctx.saved_tensors
        g = grad.reshape(-1, 3)
        p = xyz.reshape(-1, 3)
        g_xyz = scale * (grad @ _small_rotation(rot))
        g_rot = torch.linalg.cross(p, g).sum(0)
        g_scale = (grad * turned).sum()
        return g_xyz, g.sum(0), g_rot, g_scale


def fit_site_grid(source, target, steps=200, lr=1e-2, scale=1.0):
    # scale: initial value, e.g. 0.3048 when the old grid is in feet
    shift = torch.zeros(3, dtype=source.dtype, requires_grad=True)
    rot = torch.zeros(3, dtype=source.dtype, requires_grad=True)
    scale = torch.tensor(scale, dtype=source.dtype, requires_grad=True)
    opt = torch.optim.Adam([shift, rot, scale], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (HelmertTransform.apply(source, shift, rot, scale) - target).square().mean()
        loss.backward()
        opt.step()
    return shift.detach(), rot.detach(), scale.detach()
