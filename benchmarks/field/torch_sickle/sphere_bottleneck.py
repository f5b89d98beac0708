"""Spherical latent bottleneck for multi-view speaker and product embeddings.

The encoder returns a direction ``mu`` on the unit sphere and a concentration
``kappa``; codes are drawn from the power spherical family (De Cao & Aziz,
2020): a marginal ``t`` along the first axis, a uniform tangent direction, and
one Householder reflection that carries the first axis on to ``mu``.  The
encoder is regularised by relaxed dropout with learned rates (Gal, Hron &
Kendall, 2017) and the free-space half of the code is scored by a mixture of
learned pseudo-posteriors (Tomczak & Welling, 2018).

The three inner pieces are called thousands of times per step in the many-view
setting, where the autograd graphs of the plain formulation dominated memory;
they are written here as ``torch.autograd.Function`` with short closed-form
backward passes which save only what they need.
"""

import math
from typing import NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import nn

LOG_2PI = math.log(2.0 * math.pi)
TANGENT_FLOOR = 1e-12
REFLECTION_FLOOR = 1e-7
MIN_LOG_VARIANCE = -7.0
NOISE_MARGIN = 1e-6


class BottleneckConfig(NamedTuple):
    """Sizes and static switches of the bottleneck."""

    features: int = 64
    sphere_dim: int = 16
    free_dim: int = 8
    components: int = 32
    temperature: float = 0.2
    rescale: bool = True


class LatentCode(NamedTuple):
    sphere: torch.Tensor
    free: torch.Tensor
    log_prior: torch.Tensor


def _collapse(grad: torch.Tensor, shape: torch.Size) -> torch.Tensor:
    """Sum ``grad`` down to ``shape`` (undo broadcasting)."""
    if grad.shape == shape:
        return grad
    return grad.sum_to_size(shape)


def _first_axis(like: torch.Tensor) -> torch.Tensor:
    axis = torch.zeros(like.shape[-1], dtype=like.dtype, device=like.device)
    axis[0] = 1.0
    return axis


class PowerSphericalReflect(torch.autograd.Function):
    """Carry a draw about the first axis over to the mean direction.

    Parameters
    ----------
    t : Tensor, shape (samples, batch)
        Cosine between the draw and its mean direction, in (-1, 1).
    tangent : Tensor, shape (samples, batch, dim - 1)
        Unit tangent directions.
    mu : Tensor, shape (batch, dim) or (dim,)
        Mean direction; not the first basis vector itself, where the
        reflection has no axis.

    Returns
    -------
    Tensor, shape (samples, batch, dim)
    """

    @staticmethod
    def forward(ctx, t, tangent, mu):
        lateral = (1.0 - t * t).clamp_min(TANGENT_FLOOR).sqrt()
        y = torch.cat([t.unsqueeze(-1), lateral.unsqueeze(-1) * tangent], dim=-1)
        w = _first_axis(mu) - mu
        length = w.norm(dim=-1, keepdim=True).clamp_min(REFLECTION_FLOOR)
        u = w / length
        along = (u * y).sum(-1, keepdim=True)
        ctx.save_for_backward(t, tangent, lateral, y, u, length)
        return y - 2.0 * along * u

    @staticmethod
    def backward(ctx, grad):
        t, tangent, lateral, y, u, length = ctx.saved_tensors
        u_grad = (u * grad).sum(-1, keepdim=True)
        u_y = (u * y).sum(-1, keepdim=True)
        grad_y = grad - 2.0 * u_grad * u
        grad_lateral = (grad_y[..., 1:] * tangent).sum(-1)
        grad_t = grad_y[..., 0] - grad_lateral * t / lateral
        grad_tangent = grad_y[..., 1:] * lateral.unsqueeze(-1)
        grad_mu = None
        if ctx.needs_input_grad[2]:
            grad_u = _collapse(-2.0 * (u_y * grad + u_grad * y), u.shape)
            radial = (u * grad_u).sum(-1, keepdim=True)
            grad_mu = -(grad_u - radial * u) / length
        return grad_t, grad_tangent, grad_mu


class ConcreteDropMask(torch.autograd.Function):
    """Relaxed Bernoulli keep-mask with a learned dropout rate per feature.

    Args:
        logit_p: logits of the dropout rates, ``(features,)`` or a scalar.
        noise: uniform noise in (0, 1) whose trailing axis runs over features,
            ``(..., features)``.  Treated as data.
        temperature: relaxation temperature.
        rescale: divide the mask by the keep probability so that activations
            keep their expectation (inverted dropout); with ``False`` the bare
            relaxed mask is returned.
    """

    @staticmethod
    def forward(ctx, logit_p, noise, temperature=0.1, rescale=True):
        noise = noise.clamp(NOISE_MARGIN, 1.0 - NOISE_MARGIN)
        logistic = noise.log() - torch.log1p(-noise)
        dropped = torch.sigmoid((logit_p + logistic) / temperature)
        keep_inverse = 1.0 + logit_p.exp()
        ctx.temperature = temperature
        ctx.rescale = rescale
        ctx.save_for_backward(logit_p, dropped, keep_inverse)
        mask = 1.0 - dropped
        return mask * keep_inverse if rescale else mask

    @staticmethod
    def backward(ctx, grad):
        logit_p, dropped, keep_inverse = ctx.saved_tensors
        gate_slope = -dropped * (1.0 - dropped) / ctx.temperature
        if ctx.rescale:
            gate_slope = gate_slope * keep_inverse
        slope = gate_slope + (1.0 - dropped) * logit_p.exp()
        return _collapse(grad * slope, logit_p.shape), None, None, None


class VampLogPrior(torch.autograd.Function):
    """log sum_k pi_k N(z; m_k, diag exp(s_k)), with pi = softmax(weights).

    z is (..., D); means and log-variances are (K, D); weights (K,).  The
    log-variances are floored at MIN_LOG_VARIANCE, below which they get no
    gradient.
    """

    @staticmethod
    def forward(ctx, z, means, log_var, weights):
        flat = z.reshape(-1, z.shape[-1])
        floored = log_var.clamp_min(MIN_LOG_VARIANCE)
        precision = torch.exp(-floored)
        diff = flat.unsqueeze(1) - means
        quad = (diff * diff * precision).sum(-1)
        log_pi = F.log_softmax(weights, dim=0)
        joint = log_pi - 0.5 * (quad + floored.sum(-1) + z.shape[-1] * LOG_2PI)
        total = torch.logsumexp(joint, dim=-1)
        resp = torch.exp(joint - total.unsqueeze(-1))
        ctx.save_for_backward(flat, means, log_var, precision, resp, log_pi)
        ctx.z_shape = z.shape
        return total.reshape(z.shape[:-1])

    @staticmethod
    def backward(ctx, grad):
        flat, means, log_var, precision, resp, log_pi = ctx.saved_tensors
        scaled = resp * grad.reshape(-1, 1)
        diff = flat.unsqueeze(1) - means
        pull = scaled.unsqueeze(-1) * diff * precision
        grad_z = -pull.sum(1).reshape(ctx.z_shape)
        grad_means = pull.sum(0)
        mass = scaled.sum(0)
        grad_log_var = 0.5 * ((pull * diff).sum(0) - mass.unsqueeze(-1))
        grad_log_var = grad_log_var * (log_var >= MIN_LOG_VARIANCE)
        grad_weights = mass - log_pi.exp() * mass.sum()
        return grad_z, grad_means, grad_log_var, grad_weights


def draw_marginal(kappa: torch.Tensor, dim: int, samples: int) -> torch.Tensor:
    """Reparameterised ``t`` of the power spherical family, ``(samples, batch)``."""
    alpha = (dim - 1) / 2.0 + kappa
    beta = torch.full_like(kappa, (dim - 1) / 2.0)
    z = torch.distributions.Beta(alpha, beta).rsample((samples,))
    return (2.0 * z - 1.0).clamp(-1.0 + 1e-5, 1.0 - 1e-5)


def draw_tangent(shape: Tuple[int, ...], like: torch.Tensor) -> torch.Tensor:
    raw = torch.randn(shape, dtype=like.dtype, device=like.device)
    return F.normalize(raw, dim=-1)


def power_spherical_entropy(kappa: torch.Tensor, dim: int) -> torch.Tensor:
    """Differential entropy of the power spherical distribution."""
    half = (dim - 1) / 2.0
    alpha = half + kappa
    log_norm = -(
        (alpha + half) * math.log(2.0)
        + torch.lgamma(alpha)
        - torch.lgamma(alpha + half)
        + half * math.log(math.pi)
    )
    mean_log = math.log(2.0) + torch.digamma(alpha) - torch.digamma(alpha + half)
    return -(log_norm + kappa * mean_log)


def sphere_uniform_entropy(dim: int) -> float:
    return math.log(2.0) + 0.5 * dim * math.log(math.pi) - math.lgamma(dim / 2.0)


class ConcreteDropout(nn.Module):
    """Feature-wise dropout with learned rates."""

    def __init__(self, features: int, temperature: float, rescale: bool = True,
                 initial_rate: float = 0.1):
        super().__init__()
        self.temperature = temperature
        self.rescale = rescale
        start = math.log(initial_rate) - math.log1p(-initial_rate)
        self.logit_p = nn.Parameter(torch.full((features,), start))

    def forward(self, x):
        if not self.training:
            if self.rescale:
                return x
            return x * (1.0 - torch.sigmoid(self.logit_p))
        noise = torch.rand_like(x)
        mask = ConcreteDropMask.apply(self.logit_p, noise, self.temperature, self.rescale)
        return x * mask

    def rate_entropy(self):
        p = torch.sigmoid(self.logit_p)
        return -(p * p.log() + (1.0 - p) * torch.log1p(-p)).sum()


class PseudoPosteriorPrior(nn.Module):
    def __init__(self, components: int, dim: int):
        super().__init__()
        self.means = nn.Parameter(torch.randn(components, dim))
        self.log_var = nn.Parameter(torch.zeros(components, dim))
        self.weights = nn.Parameter(torch.zeros(components))

    def forward(self, z):
        return VampLogPrior.apply(z, self.means, self.log_var, self.weights)


class SphereBottleneck(nn.Module):
    """Encoder trunk, spherical code and free-space code in one module."""

    def __init__(self, config: BottleneckConfig = BottleneckConfig()):
        super().__init__()
        self.config = config
        self.drop = ConcreteDropout(config.features, config.temperature, config.rescale)
        self.to_mu = nn.Linear(config.features, config.sphere_dim)
        self.to_kappa = nn.Linear(config.features, 1)
        self.to_free = nn.Linear(config.features, 2 * config.free_dim)
        self.prior = PseudoPosteriorPrior(config.components, config.free_dim)

    def sample_sphere(self, mu, kappa, samples):
        dim = mu.shape[-1]
        t = draw_marginal(kappa, dim, samples)
        tangent = draw_tangent((samples, mu.shape[0], dim - 1), mu)
        return PowerSphericalReflect.apply(t, tangent, mu)

    def forward(self, x, samples: int = 1, generator: Optional[torch.Generator] = None):
        h = self.drop(x)
        mu = F.normalize(self.to_mu(h), dim=-1)
        kappa = F.softplus(self.to_kappa(h)).squeeze(-1) + 1.0
        loc, raw = self.to_free(h).chunk(2, dim=-1)
        scale = F.softplus(raw) + 1e-3
        eps = torch.randn((samples,) + loc.shape, dtype=x.dtype, generator=generator)
        free = loc + scale * eps
        sphere = self.sample_sphere(mu, kappa, samples)
        entropy = power_spherical_entropy(kappa, self.config.sphere_dim)
        log_q = (-0.5 * eps ** 2 - scale.log() - 0.5 * LOG_2PI).sum(-1)
        kl = log_q - self.prior(free) - entropy + sphere_uniform_entropy(self.config.sphere_dim)
        return LatentCode(sphere, free, -kl)


def main():
    torch.manual_seed(3)
    model = SphereBottleneck(BottleneckConfig(features=24, sphere_dim=6, free_dim=4, components=5))
    x = torch.randn(12, 24)
    code = model(x, samples=4)
    loss = -code.log_prior.mean() + code.sphere[..., 0].square().mean()
    loss.backward()
    print("loss", loss.item(), "rate grad", model.drop.logit_p.grad.norm().item())


if __name__ == "__main__":
    main()
