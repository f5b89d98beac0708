"""Training objectives: clipped policy losses and entropic transport."""
from typing import Optional

import torch
from torch import Tensor


class GroupedPolicyLossFunction(torch.autograd.Function):
    """Clipped policy loss with per-completion advantages and an optional KL penalty.

    Args:
        logps (Tensor): log-probabilities of the sampled tokens, ``(B, T)``.
        old_logps (Tensor): the same under the sampling policy; a constant.
        advantages (Tensor): one per completion, ``(B,)``; a constant.
        mask (Tensor): 1 for tokens of the completion, 0 for padding, ``(B, T)``; every row
            holds at least one token.
        ref_logps (Tensor, optional): under the reference policy, used when ``beta > 0``.
        beta (float): weight of the KL penalty ``exp(r) - r - 1`` with ``r = ref - logp``.
        eps_low (float): lower clipping range.
        eps_high (float): upper clipping range.
        level (str): ``"token"`` for one importance ratio per token, ``"sequence"`` for the
            geometric mean of the ratios over the tokens of the completion.

    Returns:
        Tensor: the average over completions of the masked average over tokens.
    """

    @staticmethod
    def forward(ctx, logps: Tensor, old_logps: Tensor, advantages: Tensor, mask: Tensor,
                ref_logps: Optional[Tensor] = None, beta: float = 0.0, eps_low: float = 0.2,
                eps_high: float = 0.2, level: str = "token") -> Tensor:
        mask = mask.to(logps.dtype)
        count = mask.sum(-1, keepdim=True)
        delta = logps - old_logps
        if level == "sequence":
            delta = (delta * mask).sum(-1, keepdim=True) / count
        elif level != "token":
            raise ValueError(f"unknown level {level!r}")
        adv = advantages.unsqueeze(-1)
        ratio = torch.exp(delta)
        plain = ratio * adv
        clipped = ratio.clamp(1 - eps_low, 1 + eps_high) * adv
        per_token = -torch.minimum(plain, clipped)
        dratio = torch.where(plain <= clipped, -plain, torch.zeros_like(plain))

        if beta and ref_logps is not None:
            r = ref_logps - logps
            per_token = per_token + beta * (torch.expm1(r) - r)
            kl_grad = -beta * torch.expm1(r)
        else:
            kl_grad = torch.zeros_like(logps)
        if level == "sequence":
            dlogps = dratio / logps.shape[-1] + kl_grad / count
        else:
            dlogps = (dratio + kl_grad) / count
        batch = logps.shape[0]
        ctx.save_for_backward(dlogps * mask / batch)
        return ((per_token * mask).sum(-1, keepdim=True) / count).sum() / batch

    @staticmethod
    def backward(ctx, grad_output):
        (dlogps,) = ctx.saved_tensors
        return (grad_output * dlogps,) + (None,) * 8


class EntropicTransport:
    """Entropy-regularised optimal transport between two fixed marginals.

    Parameters
    ----------
    mu : sequence of float
        Positive masses of the sources.
    nu : sequence of float
        Positive masses of the targets. Both sides are normalised to one.
    epsilon : float
        Strength of the regularisation.
    max_iter : int
        Bound on the Sinkhorn sweeps.
    """

    def __init__(self, mu, nu, epsilon: float = 0.1, *, max_iter: int = 5000):
        self.mu = torch.as_tensor(mu, dtype=torch.float64)
        self.nu = torch.as_tensor(nu, dtype=torch.float64)
        if (self.mu <= 0).any() or (self.nu <= 0).any():
            raise ValueError("marginals must be positive")
        self.mu = self.mu / self.mu.sum()
        self.nu = self.nu / self.nu.sum()
        self.epsilon = epsilon
        self.max_iter = max_iter

    class _Plan(torch.autograd.Function):
        @staticmethod
        def forward(ctx, cost, mu, nu, epsilon, max_iter):
            s = -cost / epsilon
            log_mu, log_nu = mu.log(), nu.log()
            g = torch.zeros_like(s[..., 0, :])
            tol = 20 * torch.finfo(s.dtype).eps
            for _ in range(max_iter):
                f = log_mu - torch.logsumexp(s + g[..., None, :], -1)
                g = log_nu - torch.logsumexp(s + f[..., :, None], -2)
                plan = torch.exp(s + f[..., :, None] + g[..., None, :])
                if bool(((plan.sum(-1) - mu).abs() <= tol * mu).all()):
                    break
            ctx.save_for_backward(plan)
            ctx.epsilon = epsilon
            return plan

        @staticmethod
        def backward(ctx, grad):
            (plan,) = ctx.saved_tensors
            n = plan.shape[-2]
            h = grad * plan / ctx.epsilon
            pc = plan[..., :-1]
            top = torch.cat([torch.diag_embed(plan.sum(-1)), pc], -1)
            low = torch.cat([pc.transpose(-1, -2), torch.diag_embed(pc.sum(-2))], -1)
            rhs = torch.cat([h.sum(-1), h[..., :-1].sum(-2)], -1)
            z = torch.linalg.solve(torch.cat([top, low], -2), rhs.unsqueeze(-1)).squeeze(-1)
            zf = z[..., :n]
            zg = torch.cat([z[..., n:], torch.zeros_like(z[..., :1])], -1)
            return plan * (zf[..., :, None] + zg[..., None, :]) - h, None, None, None, None

    def plan(self, cost: Tensor) -> Tensor:
        """Optimal plan of a cost ``(..., n, m)``, differentiated implicitly."""
        mu, nu = self.mu.to(cost), self.nu.to(cost)
        return self._Plan.apply(cost, mu, nu, self.epsilon, self.max_iter)
