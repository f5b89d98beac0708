"""Rotations, ray compositing and dense linear algebra for 3-D vision."""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _hat(w):
    zero = torch.zeros_like(w[..., 0])
    x, y, z = w.unbind(-1)
    return torch.stack(
        (zero, -z, y, z, zero, -x, -y, x, zero), dim=-1
    ).reshape(*w.shape[:-1], 3, 3)


class SO3Exp(Function):
    """Axis-angle vectors (..., 3) to rotation matrices (..., 3, 3)."""

    @staticmethod
    def _coefficients(theta2):
        small = theta2 < 1e-2
        t2 = torch.where(small, torch.ones_like(theta2), theta2)
        t = t2.sqrt()
        a = torch.where(
            small,
            1 - theta2 / 6 + theta2 ** 2 / 120 - theta2 ** 3 / 5040 + theta2 ** 4 / 362880,
            t.sin() / t,
        )
        b = torch.where(
            small,
            0.5 - theta2 / 24 + theta2 ** 2 / 720 - theta2 ** 3 / 40320 + theta2 ** 4 / 3628800,
            2 * (t / 2).sin() ** 2 / t2,
        )
        # da and db are the derivatives divided by theta
        da = torch.where(
            small,
            -1 / 3 + theta2 / 30 - theta2 ** 2 / 840 + theta2 ** 3 / 45360,
            (t.cos() - a) / t2,
        )
        db = torch.where(
            small,
            -1 / 12 + theta2 / 180 - theta2 ** 2 / 6720 + theta2 ** 3 / 453600,
            (a - 2 * b) / t2,
        )
        return a, b, da, db

    @staticmethod
    def forward(ctx, omega):
        a, b, _, _ = SO3Exp._coefficients(omega.square().sum(-1))
        k = _hat(omega)
        ctx.save_for_backward(omega)
        eye = torch.eye(3, dtype=omega.dtype, device=omega.device)
        return eye + a[..., None, None] * k + b[..., None, None] * (k @ k)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        (omega,) = ctx.saved_tensors
        a, b, da, db = SO3Exp._coefficients(omega.square().sum(-1))
        k = _hat(omega)
        # gradient with respect to the skew matrix, then to its three entries
        gk = a[..., None, None] * g + b[..., None, None] * (g @ k.mT + k.mT @ g)
        gw = torch.stack(
            (
                gk[..., 2, 1] - gk[..., 1, 2],
                gk[..., 0, 2] - gk[..., 2, 0],
                gk[..., 1, 0] - gk[..., 0, 1],
            ),
            dim=-1,
        )
        radial = da * (g * k).sum((-1, -2)) + db * (g * (k @ k)).sum((-1, -2))
        return gw + radial[..., None] * omega


class CompositeRays(Function):
    """Emission-absorption rendering along rays (NeRF).

    Args:
        sigma: densities, (rays, samples).
        rgb: colours, (rays, samples, 3).
        delta: distances between samples, (rays, samples).
        white_background: composite onto white rather than black.

    Returns:
        colour (rays, 3) and opacity (rays,).
    """

    @staticmethod
    def forward(ctx, sigma, rgb, delta, white_background=False):
        tau = sigma * delta
        through = torch.exp(-tau.cumsum(-1))                    # behind each sample
        before = torch.cat((torch.ones_like(through[:, :1]), through[:, :-1]), dim=-1)
        weights = before - through
        opacity = weights.sum(-1)
        colour = (weights.unsqueeze(-1) * rgb).sum(1)
        if white_background:
            colour = colour + (1 - opacity).unsqueeze(-1)
        ctx.save_for_backward(sigma, rgb, delta, weights, through)
        return colour, opacity

    @staticmethod
    @once_differentiable
    def backward(ctx, g_colour, g_opacity):
        sigma, rgb, delta, weights, through = ctx.saved_tensors
        g_weights = (g_colour.unsqueeze(1) * rgb).sum(-1) + g_opacity.unsqueeze(-1)
        g_rgb = weights.unsqueeze(-1) * g_colour.unsqueeze(1)
        gw = g_weights * weights
        behind = gw.flip(-1).cumsum(-1).flip(-1) - gw
        g_tau = g_weights * through - behind
        return g_tau * delta, g_rgb, g_tau * sigma, None


class DenseSolve(Function):

    @staticmethod
    def forward(ctx, A, b):
        x = torch.linalg.solve(A, b)
        ctx.save_for_backward(A, x)
        return x

    @staticmethod
    def backward(ctx, g):
        A, x = ctx.saved_tensors
        gb = torch.linalg.solve(A, g)
        return -gb @ x.mT, gb


def gauss_newton_step(J, r, damping=1e-3):
    """One damped Gauss-Newton step for residuals r (m,) with Jacobian J (m, n)."""
    H = J.mT @ J + damping * torch.eye(J.shape[-1], dtype=J.dtype, device=J.device)
    return DenseSolve.apply(H, -(J.mT @ r).unsqueeze(-1)).squeeze(-1)


class PairwiseDistance(Function):
    """Euclidean distances between two point clouds.

    x: "b n d", y: "b m d" -> "b n m". Coinciding points have distance zero and
    pass no gradient.
    """

    @staticmethod
    def forward(x, y):
        d2 = x.new_zeros(x.shape[0], x.shape[1], y.shape[1])
        for i in range(x.shape[-1]):
            d2 += (x[:, :, None, i] - y[:, None, :, i]) ** 2
        return d2.sqrt()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y = inputs
        ctx.save_for_backward(x, y, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        x, y, d = ctx.saved_tensors
        coef = torch.where(d > 0, g / d, torch.zeros_like(g))
        gx, gy = torch.empty_like(x), torch.empty_like(y)
        for i in range(x.shape[-1]):
            t = coef * (x[:, :, None, i] - y[:, None, :, i])
            gx[..., i] = t.sum(2)
            gy[..., i] = -t.sum(1)
        return gx, gy


class SpdSqrt(Function):

    @staticmethod
    def forward(ctx, A):
        lam, V = torch.linalg.eigh(0.5 * (A + A.mT))
        root = lam.sqrt()
        ctx.save_for_backward(root, V)
        return (V * root.unsqueeze(-2)) @ V.mT

    @staticmethod
    @once_differentiable
    def backward(ctx, G):
        root, V = ctx.saved_tensors
        G = V.mT @ (0.5 * (G + G.mT)) @ V
        return V @ (G / (root.unsqueeze(-1) + root.unsqueeze(-2))) @ V.mT


def bures_distance(A, B):
    """Squared Bures-Wasserstein distance of two covariance matrices (n, n)."""
    Ah = SpdSqrt.apply(A)
    cross = SpdSqrt.apply(Ah @ B @ Ah)
    return A.trace() + B.trace() - 2 * cross.trace()


if __name__ == "__main__":
    torch.manual_seed(0)
    w = torch.randn(5, 3, requires_grad=True)
    R = SO3Exp.apply(w)
    print("orthogonality", (R @ R.mT - torch.eye(3)).abs().max().item())
    sigma, rgb = torch.rand(4, 16), torch.rand(4, 16, 3)
    colour, opacity = CompositeRays.apply(sigma, rgb, torch.full((4, 16), 0.1))
    print(colour.shape, opacity)
