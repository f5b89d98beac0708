import torch
from torch import nn

EPS = 1e-5
BETA_MIN = 1e-4


class LaplaceDensity(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sdf, beta):
        b = beta.abs() + BETA_MIN
        e = 0.5 * torch.exp(-sdf.abs() / b)
        sigma = torch.where(sdf >= 0, e, 1.0 - e) / b
        ctx.save_for_backward(sdf, beta, e, sigma)
        return sigma

    @staticmethod
    def backward(ctx, g):
        sdf, beta, e, sigma = ctx.saved_tensors
        b = beta.abs() + BETA_MIN
        g_sdf = -g * e / b**2
        g_beta = g * (e * sdf / b**2 - sigma) / b
        return g_sdf, (g_beta * beta.sign()).sum_to_size(beta.shape)


class SectionAlpha(torch.autograd.Function):
    @staticmethod
    def forward(ctx, sdf, v):
        # sdf: (rays, edges) at the section edges, v: 0-d, sharpness is exp(10 v)
        sharp = torch.exp(10.0 * v)
        cdf = torch.sigmoid(sdf * sharp)
        p, n = cdf[:, :-1], cdf[:, 1:]
        raw = (p - n + EPS) / (p + EPS)
        ctx.save_for_backward(sdf, cdf, sharp, raw)
        return raw.clamp(min=0.0)

    @staticmethod
    def backward(ctx, g):
        sdf, cdf, sharp, raw = ctx.saved_tensors
        p, n = cdf[:, :-1], cdf[:, 1:]
        dp = n / (p + EPS) ** 2
        dn = -1.0 / (p + EPS)
        slope = cdf * (1.0 - cdf)
        # sections where the ray leaves the surface are transparent
        g_in = g * (raw > 0)
        g_sdf = torch.zeros_like(sdf)
        g_sdf[:, :-1] += g_in * dp * slope[:, :-1] * sharp
        g_sdf[:, 1:] += g_in * dn * slope[:, 1:] * sharp
        tilt = slope * sdf
        g_v = 10.0 * sharp * (g * (dp * tilt[:, :-1] + dn * tilt[:, 1:])).sum()
        return g_sdf, g_v


class ContractScene(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, radius):
        # x: (scenes, points, 3); radius: (scenes, 1), unbounded space goes into a ball of 2 radius
        norm = x.norm(dim=-1)
        far = norm > radius
        n = torch.where(far, norm, radius.expand_as(norm))
        u = radius / n
        f = (2.0 - u) * u
        ctx.save_for_backward(x, n, u, f, far)
        ctx.rshape = radius.shape
        return f.unsqueeze(-1) * x

    @staticmethod
    def backward(ctx, g):
        x, n, u, f, far = ctx.saved_tensors
        along = (g * x).sum(-1)
        bend = 2.0 * (1.0 - u) / n
        g_x = f.unsqueeze(-1) * g - (along * bend * u / n).unsqueeze(-1) * x
        g_r = along * bend * far
        return g_x, g_r.sum_to_size(ctx.rshape)


class EikonalPenalty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, normals, weight, kind="l2"):
        # normals: (points, 3) spatial gradients of the field, weight: (points,) >= 0
        length = (normals.square().sum(-1) + 1e-12).sqrt()
        r = length - 1.0
        phi = r.square() if kind == "l2" else r.abs()
        total = weight.sum()
        ctx.kind = kind
        ctx.save_for_backward(normals, weight, length, r, phi, total)
        return (weight * phi).sum() / total

    @staticmethod
    def backward(ctx, g):
        normals, weight, length, r, phi, total = ctx.saved_tensors
        d = 2.0 * r if ctx.kind == "l2" else r.sign()
        scale = g / total
        g_normals = (scale * weight * d / length).unsqueeze(-1) * normals
        return g_normals, scale * phi, None


def composite_weights(alpha):
    trans = torch.cumprod(1.0 - alpha + 1e-10, dim=-1)
    trans = torch.cat([torch.ones_like(trans[:, :1]), trans[:, :-1]], dim=-1)
    return alpha * trans


class ImplicitField(nn.Module):
    def __init__(self, hidden=64, depth=4):
        super().__init__()
        dims = [3] + [hidden] * depth
        self.body = nn.ModuleList(nn.Linear(a, b) for a, b in zip(dims, dims[1:]))
        self.head = nn.Linear(hidden, 4)

    def forward(self, x):
        for layer in self.body:
            x = nn.functional.softplus(layer(x), beta=100)
        out = self.head(x)
        return out[..., 0], torch.sigmoid(out[..., 1:])


class Renderer(nn.Module):
    def __init__(self, scenes, mode="alpha", radius=1.0):
        super().__init__()
        self.field = ImplicitField()
        self.mode = mode
        self.v = nn.Parameter(torch.tensor(0.3))
        self.beta = nn.Parameter(torch.full((scenes, 1), 0.1))
        self.radius = nn.Parameter(torch.full((scenes, 1), radius))
        self.confidence = nn.Linear(3, 1)

    def forward(self, origins, dirs, near, far, sections=32):
        """origins, dirs: (scenes, rays, 3) -> colours (scenes, rays, 3)."""
        S, R, _ = origins.shape
        t = torch.linspace(near, far, sections + 1, device=origins.device)
        x = origins[:, :, None] + t[:, None] * dirs[:, :, None]
        y = ContractScene.apply(x.reshape(S, -1, 3), self.radius)
        sdf, colour = self.field(y)
        if self.mode == "alpha":
            alpha = SectionAlpha.apply(sdf.reshape(S * R, -1), self.v)
        else:
            sigma = LaplaceDensity.apply(sdf, self.beta).reshape(S * R, -1)
            alpha = 1.0 - torch.exp(-sigma[:, :-1] * (t[1:] - t[:-1]))
        w = composite_weights(alpha)
        colour = colour.reshape(S * R, -1, 3)[:, :-1]
        return (w.unsqueeze(-1) * colour).sum(1).reshape(S, R, 3)

    def regulariser(self, points, kind="l2"):
        points = points.requires_grad_(True)
        sdf, _ = self.field(points)
        (normals,) = torch.autograd.grad(sdf.sum(), points, create_graph=True)
        weight = torch.sigmoid(self.confidence(points)).squeeze(-1)
        return EikonalPenalty.apply(normals, weight, kind)


def fit(renderer, batches, lam=0.1, lr=5e-4):
    opt = torch.optim.Adam(renderer.parameters(), lr=lr)
    for origins, dirs, target, free in batches:
        opt.zero_grad()
        loss = (renderer(origins, dirs, 0.1, 4.0) - target).abs().mean()
        loss = loss + lam * renderer.regulariser(free)
        loss.backward()
        opt.step()
    return renderer
