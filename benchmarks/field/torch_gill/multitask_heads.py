# Building blocks for networks with several heads: loss weighting, feature sharing, expert gates.
from typing import Optional, Sequence

import torch
from torch import Tensor, nn
from torch.autograd import Function

# factor in front of the precision-weighted loss, by likelihood
LIKELIHOOD_FACTOR = {"gaussian": 0.5, "categorical": 1.0, "laplace": 1.0}


class UncertaintyWeighting(Function):
    """Homoscedastic weighting: sum_t factor_t exp(-s_t) mean_t + s_t / 2 over the tasks that have labels in the batch.

    losses: (batch, tasks); log_var: (tasks,); labelled: bool (batch, tasks); factor: (tasks,) constants.
    ``penalise=False`` leaves s_t / 2 out. Returns the total and, for logging only (detached), the mean loss of each task.
    """

    @staticmethod
    def forward(losses, log_var, labelled, factor, penalise):
        count = labelled.sum(0)
        mean = torch.where(labelled, losses, torch.zeros_like(losses)).sum(0) / count.clamp_min(1)
        total = (factor * torch.exp(-log_var) * mean).sum()
        if penalise:
            total = total + 0.5 * (log_var * (count > 0)).sum()
        return total, mean

    @staticmethod
    def setup_context(ctx, inputs, output):
        losses, log_var, labelled, factor, ctx.penalise = inputs
        ctx.save_for_backward(log_var, labelled, factor, output[1])
        ctx.mark_non_differentiable(output[1])

    @staticmethod
    def backward(ctx, grad, _):
        log_var, labelled, factor, mean = ctx.saved_tensors
        count = labelled.sum(0)
        precision = grad * factor * torch.exp(-log_var)
        g_losses = labelled * (precision / count.clamp_min(1))
        g_log_var = -precision * mean
        if ctx.penalise:
            g_log_var = g_log_var + 0.5 * grad * (count > 0)
        return g_losses, g_log_var, None, None, None


class RelativeRateWeights(Function):
    """Dynamic weight average.

    Tasks whose loss falls slowly get more weight: ``tasks * softmax(min(recent / earlier, cap) / tau)``.

    Args:
        recent (Tensor): losses of the last epoch, (runs, tasks), positive.
        earlier (Tensor): losses of the epoch before, (runs, tasks), positive.
        tau (Tensor): temperature, a scalar tensor.
        cap (float): ceiling on the ratio, for losses that blow up.
    """

    @staticmethod
    def forward(ctx, recent, earlier, tau, cap=4.0):
        ratio = recent / earlier
        rising = ratio > cap
        ratio = ratio.clamp(max=cap)
        share = torch.softmax(ratio / tau, dim=-1)
        ctx.save_for_backward(earlier, ratio, share, rising, tau)
        return recent.shape[-1] * share

    @staticmethod
    def backward(ctx, grad):
        earlier, ratio, share, rising, tau = ctx.saved_tensors
        grad = grad * share.shape[-1]
        g_logit = share * (grad - (grad * share).sum(-1, keepdim=True))
        g_ratio = (g_logit / tau).masked_fill(rising, 0.0)
        g_recent = g_ratio / earlier
        g_tau = -(g_ratio * ratio).sum() / tau
        return g_recent, -g_recent * ratio, g_tau, None


class CrossStitch(Function):
    """Linear sharing of features between the towers of several tasks.

    ``features`` is (tasks, batch, channels) and ``stitch`` either (tasks, tasks), one number per pair of towers, or
    (tasks, tasks, channels). Tower i receives ``sum_j stitch[i, j] * features[j]``.
    """

    @staticmethod
    def forward(ctx, features, stitch):
        ctx.save_for_backward(features, stitch)
        if stitch.dim() == 2:
            return torch.einsum("ij,jbc->ibc", stitch, features)
        return torch.einsum("ijc,jbc->ibc", stitch, features)

    @staticmethod
    def backward(ctx, grad):
        features, stitch = ctx.saved_tensors
        g_features = g_stitch = None
        if ctx.needs_input_grad[0]:
            if stitch.dim() == 2:
                g_features = torch.einsum("ij,ibc->jbc", stitch, grad)
            else:
                g_features = torch.einsum("ijc,jbc->ibc", stitch, grad)
        if ctx.needs_input_grad[1]:
            pattern = "ibc,jbc->ij" if stitch.dim() == 2 else "ibc,jbc->ijc"
            g_stitch = torch.einsum(pattern, grad, features)
        return g_features, g_stitch


class GateMixture(Function):
    """Multi-gate mixture of experts.

    logits : (tasks, batch, experts)
    experts : (experts, batch, width)
    temperature : (tasks,)
    available : bool (batch, experts); an example without any available expert gets zeros
    """

    @staticmethod
    def forward(logits, experts, temperature, available):
        z = (logits / temperature[:, None, None]).masked_fill(~available, float("-inf"))
        top = z.amax(-1, keepdim=True)
        e = torch.exp(z - torch.where(torch.isfinite(top), top, torch.zeros_like(top)))
        norm = e.sum(-1, keepdim=True)
        gate = e / torch.where(norm > 0, norm, torch.ones_like(norm))
        return torch.einsum("tbe,ebd->tbd", gate, experts), gate

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, experts, temperature, _ = inputs
        _, gate = output
        ctx.save_for_backward(logits, experts, temperature, gate)

    @staticmethod
    def backward(ctx, g_out, g_gate):
        logits, experts, temperature, gate = ctx.saved_tensors
        g_experts = torch.einsum("tbe,tbd->ebd", gate, g_out)
        g_gate = g_gate + torch.einsum("tbd,ebd->tbe", g_out, experts)
        g_z = gate * (g_gate - (g_gate * gate).sum(-1, keepdim=True))
        g_logits = g_z / temperature[:, None, None]
        g_temperature = -(g_logits * logits).sum((1, 2)) / temperature
        return g_logits, g_experts, g_temperature, None


class MultiTaskObjective(nn.Module):
    def __init__(self, likelihoods: Sequence[str], penalise: bool = True):
        super().__init__()
        self.log_var = nn.Parameter(torch.zeros(len(likelihoods)))
        self.register_buffer("factor", torch.tensor([LIKELIHOOD_FACTOR[k] for k in likelihoods]))
        self.penalise = penalise

    def forward(self, losses: Tensor, labelled: Optional[Tensor] = None) -> Tensor:
        if labelled is None:
            labelled = torch.ones_like(losses, dtype=torch.bool)
        total, self.last_means = UncertaintyWeighting.apply(
            losses, self.log_var, labelled, self.factor, self.penalise
        )
        return total


class SharedTowers(nn.Module):
    """Cross-stitch units start near the identity, so that every tower first listens to itself."""

    def __init__(self, tasks: int, channels: Optional[int] = None, own: float = 0.9):
        super().__init__()
        unit = torch.full((tasks, tasks), (1 - own) / max(tasks - 1, 1))
        unit.fill_diagonal_(own)
        if channels is not None:
            unit = unit[..., None].repeat(1, 1, channels)
        self.stitch = nn.Parameter(unit)

    def forward(self, features: Tensor) -> Tensor:
        return CrossStitch.apply(features, self.stitch)
