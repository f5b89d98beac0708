"""Faecal egg counts and anthelmintic efficacy in grazing herds.

Counts come from chamber slides: each egg seen stands for ``factor`` eggs per
gram (15, 30 or 50, by slide and dilution).  Herds are pooled into treatment
groups given as an integer table.  The fits are maximum likelihood, with draws
of the latent intensities stacked in front when they are sampled.

Terms
-----
epg       eggs per gram of faeces
patent    the period in which an infection sheds eggs
FECRT     faecal egg count reduction test
"""

from __future__ import annotations

from typing import Dict, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

CHAMBER_FACTORS = (15.0, 30.0, 50.0)
PREPATENT_DAYS = 21.0
RISE_DAYS = 6.0
FALL_DAYS = 45.0
RESISTANCE_THRESHOLD = 0.95
TINY = 1e-12


class SheddingParameters(NamedTuple):
    """Per-animal parameters; every field is ``(animals, 1)``."""

    burden: Tensor
    fecundity: Tensor
    onset: Tensor
    rise: Tensor
    fall: Tensor


def default_parameters(animals: int, dtype=torch.float32) -> SheddingParameters:
    def column(value):
        return torch.full((animals, 1), value, dtype=dtype)

    return SheddingParameters(
        column(200.0), column(2.5), column(PREPATENT_DAYS), column(RISE_DAYS), column(FALL_DAYS)
    )


def group_sizes(group: Tensor, num_groups: int) -> Tensor:
    return torch.bincount(group, minlength=num_groups)


def _group_sum(values: Tensor, group: Tensor, num_groups: int) -> Tensor:
    out = values.new_zeros(values.shape[:-1] + (num_groups,))
    return out.index_add_(-1, group, values)


class ChamberCountNLL(Function):
    r"""Negative log likelihood of chamber counts, overdispersed by group.

    .. math:: y \sim \mathrm{NB}(\mu = e^{\text{log\_epg}} / \text{factor},\ k)

    Args:
        log_epg: ``(draws, animals)`` or ``(animals,)``.
        log_shape: ``(draws, groups)`` or ``(groups,)``; log of the aggregation k.
        factor: ``(animals,)`` multiplication factor of the slide.
        counts: ``(animals,)`` integer eggs seen.
        group: ``(animals,)`` integer group of each animal.
    """

    @staticmethod
    def forward(log_epg, log_shape, factor, counts, group):
        mu = torch.exp(log_epg) / factor
        k = torch.exp(log_shape)[..., group]
        y = counts.to(mu.dtype)
        log_norm = torch.lgamma(y + k) - torch.lgamma(k) - torch.lgamma(y + 1.0)
        log_kernel = k * torch.log(k) + y * torch.log(mu) - (k + y) * torch.log(k + mu)
        return -(log_norm + log_kernel)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_nll):
        log_epg, log_shape, factor, counts, group = ctx.saved_tensors
        mu = torch.exp(log_epg) / factor
        k = torch.exp(log_shape)[..., group]
        y = counts.to(mu.dtype)

        grad_log_mu = grad_nll * k * (mu - y) / (k + mu)
        grad_factor = (-grad_log_mu / factor).sum_to_size(factor.shape)

        score = torch.digamma(y + k) - torch.digamma(k) + torch.log(k) - torch.log(k + mu)
        score = score + (mu - y) / (k + mu)
        grad_log_k = -grad_nll * k * score
        grad_log_shape = torch.zeros_like(log_shape)
        pooled = _group_sum(grad_log_k, group, log_shape.shape[-1])
        grad_log_shape = grad_log_shape + pooled.sum_to_size(log_shape.shape)
        return grad_log_mu.sum_to_size(log_epg.shape), grad_log_shape, grad_factor, None, None


class GroupReduction(Function):
    """Arithmetic-mean reduction of each treatment group.

    Before and after treatment not every animal yields a sample, so each visit
    brings its own mask and its own group means.

    Parameters
    ----------
    before, after : Tensor, shape (animals,)
        Counts in epg at the two visits.
    seen_before, seen_after : BoolTensor, shape (animals,)
    group : LongTensor, shape (animals,)
    num_groups : int

    Returns
    -------
    reduction, mean_before, mean_after : Tensor, shape (num_groups,)
        Groups without samples before treatment report a reduction of zero.
    """

    @staticmethod
    def forward(ctx, before, after, seen_before, seen_after, group, num_groups):
        dtype = before.dtype
        kept_before = seen_before.to(dtype)
        kept_after = seen_after.to(dtype)
        size_before = _group_sum(kept_before, group, num_groups).clamp(min=1.0)
        size_after = _group_sum(kept_after, group, num_groups).clamp(min=1.0)
        mean_before = _group_sum(before * kept_before, group, num_groups) / size_before
        mean_after = _group_sum(after * kept_after, group, num_groups) / size_after
        usable = mean_before > TINY
        safe = torch.where(usable, mean_before, torch.ones_like(mean_before))
        reduction = torch.where(usable, 1.0 - mean_after / safe, torch.zeros_like(safe))
        ctx.save_for_backward(
            kept_before, kept_after, size_before, safe, mean_after, usable, group
        )
        return reduction, mean_before, mean_after

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_reduction, grad_before, grad_after):
        kept_before, kept_after, size, safe, mean_after, usable, group = ctx.saved_tensors
        grad_reduction = torch.where(usable, grad_reduction, torch.zeros_like(grad_reduction))
        per_before = grad_before + grad_reduction * mean_after / safe ** 2
        per_after = grad_after - grad_reduction / safe
        out_before = (per_before / size)[group] * kept_before
        out_after = (per_after / size)[group] * kept_after
        return out_before, out_after, None, None, None, None


class PatentShedding(Function):
    """Egg output over the patent period with density-dependent fecundity.

    output = fecundity * burden^(1 - crowding) * (1 - exp(-u/rise)) * exp(-u/fall)

    with u the days since onset, zero output before it.  ``crowding`` runs from
    0 (every worm lays alike) to about 0.6 in heavy infections.
    """

    @staticmethod
    def forward(ctx, burden, fecundity, onset, rise, fall, days, crowding=0.0):
        since = (days - onset).clamp(min=0.0)
        grown = -torch.expm1(-since / rise)
        decayed = torch.exp(-since / fall)
        crowd = burden ** (-crowding)
        worms = burden * crowd
        ctx.save_for_backward(burden, fecundity, onset, rise, fall, days, crowd)
        return fecundity * worms * grown * decayed

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_eggs):
        burden, fecundity, onset, rise, fall, days, crowd = ctx.saved_tensors
        since = (days - onset).clamp(min=0.0)
        patent = (days > onset).to(grad_eggs.dtype)
        rising = torch.exp(-since / rise)
        decayed = torch.exp(-since / fall)
        grown = 1.0 - rising
        shape = grown * decayed

        grad_burden = grad_eggs * fecundity * crowd * shape
        grad_fecundity = grad_eggs * burden * crowd * shape
        amplitude = grad_eggs * fecundity * burden * crowd
        d_since = amplitude * decayed * (rising / rise - grown / fall) * patent
        grad_rise = -amplitude * decayed * rising * since / rise ** 2
        grad_fall = amplitude * shape * since / fall ** 2
        return (
            grad_burden.sum_to_size(burden.shape),
            grad_fecundity.sum_to_size(fecundity.shape),
            (-d_since).sum_to_size(onset.shape),
            grad_rise.sum_to_size(rise.shape),
            grad_fall.sum_to_size(fall.shape),
            d_since.sum_to_size(days.shape),
            None,
        )


class HerdModel(nn.Module):
    """Latent intensities and aggregation of one herd at two visits."""

    def __init__(self, animals: int, num_groups: int, crowding: float = 0.0):
        super().__init__()
        self.num_groups = num_groups
        self.crowding = crowding
        self.log_epg = nn.Parameter(torch.full((2, animals), 5.0))
        self.log_shape = nn.Parameter(torch.zeros(num_groups))
        start = default_parameters(animals)
        self.log_curve = nn.ParameterDict(
            {name: nn.Parameter(value.log()) for name, value in start._asdict().items()}
        )

    def curve(self, days: Tensor) -> Tensor:
        p: Dict[str, Tensor] = {name: value.exp() for name, value in self.log_curve.items()}
        return PatentShedding.apply(
            p["burden"], p["fecundity"], p["onset"], p["rise"], p["fall"], days, self.crowding
        )

    def efficacy(self, seen: Tensor, group: Tensor) -> Tensor:
        epg = self.log_epg.exp()
        reduction, _, _ = GroupReduction.apply(
            epg[0], epg[1], seen[0], seen[1], group, self.num_groups
        )
        return reduction

    def forward(self, counts: Tensor, factor: Tensor, seen: Tensor, group: Tensor) -> Tensor:
        total = self.log_epg.new_zeros(())
        for visit in range(2):
            nll = ChamberCountNLL.apply(
                self.log_epg[visit], self.log_shape, factor, counts[visit], group
            )
            total = total + torch.where(seen[visit], nll, torch.zeros_like(nll)).sum()
        return total


def resistance_penalty(reduction: Tensor) -> Tensor:
    return torch.relu(RESISTANCE_THRESHOLD - reduction).square().sum()


if __name__ == "__main__":
    torch.manual_seed(3)
    animals, groups = 12, 3
    table = torch.arange(animals) % groups
    slide = torch.tensor(CHAMBER_FACTORS)[table]
    eggs = torch.stack((torch.randint(2, 30, (animals,)), torch.randint(0, 4, (animals,))))
    sampled = torch.ones(2, animals, dtype=torch.bool)
    sampled[1, 4] = False
    herd = HerdModel(animals, groups, crowding=0.2)
    loss = herd(eggs, slide, sampled, table) + resistance_penalty(herd.efficacy(sampled, table))
    loss = loss + 1e-4 * herd.curve(torch.arange(0.0, 120.0, 7.0)[None]).mean()
    loss.backward()
    print(loss.item(), herd.log_shape.grad.tolist())
