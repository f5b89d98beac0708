"""Geometry and special functions used by the embedding models."""
import math

import torch
from torch.autograd import Function


class PoincareDistanceFunction(Function):
    r"""Geodesic distance in the Poincare ball of curvature ``-c``.

    .. math::
        d(x, y) = \frac{1}{\sqrt c}\,\mathrm{arcosh}\Bigl(1 +
            \frac{2c\,|x - y|^2}{(1 - c|x|^2)(1 - c|y|^2)}\Bigr)

    :param x: points inside the ball, ``(..., D)``
    :param y: points inside the ball, broadcastable against ``x``
    :param c: positive curvature, a float
    :returns: distances, of the broadcast batch shape; the gradient at coincident points is zero
    """

    @staticmethod
    def forward(ctx, x, y, c=1.0):
        diff = x - y
        sq = diff.square().sum(-1, keepdim=True)
        ax = 1 - c * x.square().sum(-1, keepdim=True)
        ay = 1 - c * y.square().sum(-1, keepdim=True)
        u = 2 * c * sq / (ax * ay)
        root = torch.sqrt(u * (u + 2))
        ctx.save_for_backward(x, y, diff, ax, ay, root, sq)
        ctx.c = c
        return (torch.log1p(u + root) / math.sqrt(c)).squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        x, y, diff, ax, ay, root, sq = ctx.saved_tensors
        c = ctx.c
        apart = root > 0
        outer = torch.where(apart, 1 / torch.where(apart, root, torch.ones_like(root)), torch.zeros_like(root))
        outer = grad.unsqueeze(-1) * outer * (4 * c / math.sqrt(c)) / (ax * ay)
        gx = outer * (diff + sq * x / ax)
        gy = outer * (sq * y / ay - diff)
        return gx.sum_to_size(x.shape), gy.sum_to_size(y.shape), None


def poincare_distance_matrix(points, others, c=1.0):
    return PoincareDistanceFunction.apply(points.unsqueeze(-2), others.unsqueeze(-3), c)


def _rodrigues(t2):
    small = t2 < 0.25
    s2 = torch.where(small, torch.ones_like(t2), t2)
    t = torch.sqrt(s2)
    a = torch.where(small, 1 - t2 / 6 * (1 - t2 / 20 * (1 - t2 / 42 * (1 - t2 / 72 * (1 - t2 / 110)))),
                    torch.sin(t) / t)
    b = torch.where(small, 0.5 - t2 / 24 * (1 - t2 / 30 * (1 - t2 / 56 * (1 - t2 / 90 * (1 - t2 / 132)))),
                    2 * torch.sin(t / 2) ** 2 / s2)
    da = torch.where(small, -1 / 3 + t2 / 30 - t2 ** 2 / 840 + t2 ** 3 / 45360 - t2 ** 4 / 3991680,
                     (torch.cos(t) - a) / s2)
    db = torch.where(small, -1 / 12 + t2 / 180 - t2 ** 2 / 6720 + t2 ** 3 / 453600 - t2 ** 4 / 47900160,
                     (a - 2 * b) / s2)
    return a, b, da, db


def _hat(w):
    x, y, z = w.unbind(-1)
    o = torch.zeros_like(x)
    return torch.stack([o, -z, y, z, o, -x, -y, x, o], -1).unflatten(-1, (3, 3))


class SO3ExpFunction(Function):

    generate_vmap_rule = True

    @staticmethod
    def forward(omega):
        t2 = omega.square().sum(-1)[..., None, None]
        a, b, _, _ = _rodrigues(t2)
        k = _hat(omega)
        eye = torch.eye(3, dtype=omega.dtype, device=omega.device)
        return eye + a * k + b * (k @ k)

    @staticmethod
    def setup_context(ctx, inputs, output):
        (omega,) = inputs
        ctx.save_for_backward(omega)

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        t2 = w.square().sum(-1, keepdim=True)
        a, b, da, db = _rodrigues(t2)
        skew = g - g.transpose(-1, -2)
        v = torch.stack([skew[..., 2, 1], skew[..., 0, 2], skew[..., 1, 0]], -1)
        trace = g.diagonal(dim1=-2, dim2=-1).sum(-1, keepdim=True)
        sw = ((g + g.transpose(-1, -2)) @ w.unsqueeze(-1)).squeeze(-1)
        first = (v * w).sum(-1, keepdim=True)
        second = 0.5 * (sw * w).sum(-1, keepdim=True) - t2 * trace
        return a * v + b * (sw - 2 * trace * w) + w * (da * first + db * second)


_EULER = 0.57721566490153286


def _expn(n, x):
    if n == 0:
        return torch.exp(-x) / x
    # power series for x <= 1
    xs = x.clamp(max=1.0)
    psi = -_EULER + sum(1.0 / k for k in range(1, n))
    lead = xs ** (n - 1)
    series = (psi * lead - torch.xlogy(lead, xs)) * ((-1) ** (n - 1) / math.factorial(n - 1))
    term = torch.ones_like(xs)
    for m in range(0, 24 + n):
        if m:
            term = term * (-xs) / m
        if m != n - 1:
            series = series - term / (m - n + 1)
    # continued fraction (modified Lentz) beyond
    xc = x.clamp(min=1.0, max=1e4)
    b = xc + n
    c = torch.full_like(xc, 1e30)
    d = 1 / b
    h = d
    for i in range(1, 120):
        an = -float(i * (n - 1 + i))
        b = b + 2
        d = 1 / (an * d + b)
        c = b + an / c
        h = h * (c * d)
    out = torch.where(x <= 1, series, h * torch.exp(-xc))
    return torch.where(x < 0, torch.full_like(x, math.nan), out)


def make_expint(n=1):
    """Return the generalised exponential integral ``E_n`` as a differentiable function of ``x >= 0``."""
    if n < 1:
        raise ValueError("order must be at least 1")

    class ExpIntegral(Function):
        @staticmethod
        def forward(x):
            return _expn(n, x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return -grad * _expn(n - 1, x)

        @staticmethod
        def jvp(ctx, x_t):
            (x,) = ctx.saved_tensors
            return -x_t * _expn(n - 1, x)

    return ExpIntegral.apply
