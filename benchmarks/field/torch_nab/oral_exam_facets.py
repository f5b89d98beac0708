"""Many-facet measurement of oral examinations.

Every row of the long table is one mark: which candidate, which task, which examiner, and the mark itself.
"""
from typing import NamedTuple, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F


class MarkTable(NamedTuple):
    candidate: torch.Tensor  # (M,) int64
    task: torch.Tensor  # (M,) int64
    examiner: torch.Tensor  # (M,) int64
    mark: torch.Tensor  # (M,) float in [0, 1] or int64 category
    weight: Optional[torch.Tensor] = None  # (M,)


class FacetPassLoss(torch.autograd.Function):
    """Weighted mean negative log likelihood of pass/fail marks.

    Args:
        ability: (C,) candidate measures.
        difficulty: (T,) task measures.
        severity: (E,) examiner measures.
        mark: (M,) pass indicator or fraction of points.
        weight: (M,) weights of the marks; their total divides the loss.
        table: (M, 3) int64 columns candidate, task, examiner.
        anchor: if True, severities are measured from their average over the marks given, so that an examiner who
            gave twice as many marks counts twice in the origin.

    Returns:
        Scalar loss.
    """

    @staticmethod
    def forward(ctx, ability, difficulty, severity, mark, weight, table, anchor=False):
        who, what, by = table.unbind(1)
        sev = severity
        if anchor:
            share = torch.bincount(by, minlength=severity.numel()).to(severity.dtype) / max(by.numel(), 1)
            sev = severity - (share * severity).sum()
        logit = ability[who] - difficulty[what] - sev[by]
        total = weight.sum()
        nll = F.softplus(logit) - mark * logit
        loss = (weight * nll).sum() / total
        ctx.save_for_backward(ability, difficulty, severity, mark, weight, table, logit, nll, loss, total)
        ctx.anchor = anchor
        return loss

    @staticmethod
    def backward(ctx, g):
        ability, difficulty, severity, mark, weight, table, logit, nll, loss, total = ctx.saved_tensors
        who, what, by = table.unbind(1)
        d_logit = g * weight / total * (torch.sigmoid(logit) - mark)
        d_ability = torch.zeros_like(ability).index_add_(0, who, d_logit)
        d_difficulty = torch.zeros_like(difficulty).index_add_(0, what, -d_logit)
        d_severity = torch.zeros_like(severity).index_add_(0, by, -d_logit)
        if ctx.anchor:
            d_severity = d_severity - d_severity.mean()
        d_mark = -g * weight / total * logit
        d_weight = g * (nll - loss) / total
        return d_ability, d_difficulty, d_severity, d_mark, d_weight, None, None


class PartialCreditNLL(torch.autograd.Function):
    """Partial credit model for tasks with unequal numbers of score levels.

    Args:
        measure: (M,) candidate measure minus everything else, one per mark.
        steps: (T, K) step difficulties; entries at or beyond ``levels[t]`` are padding.
        scale: (T,) discrimination of the tasks.
        task: (M,) int64.
        mark: (M,) int64 category, 0..levels[task]; -1 for a mark that was not given.
        levels: (T,) int64 number of steps of each task (0 for a task that is not scored).
        reduction: "none", "sum" or "mean" (over the marks given).
    """

    @staticmethod
    def forward(ctx, measure, steps, scale, task, mark, levels, reduction):
        k_max = steps.shape[1]
        column = torch.arange(k_max, device=steps.device)
        live = column[None, :] < levels[:, None]
        gaps = torch.where(live[task], measure[:, None] - steps[task], torch.zeros_like(steps[task]))
        climbed = F.pad(gaps.cumsum(1), (1, 0))
        category = torch.arange(k_max + 1, device=steps.device)
        reachable = category[None, :] <= levels[task][:, None]
        logits = (scale[task][:, None] * climbed).masked_fill(~reachable, float("-inf"))
        logp = torch.log_softmax(logits, dim=1)
        given = mark >= 0
        picked = logp.gather(1, mark.clamp_min(0)[:, None]).squeeze(1)
        nll = torch.where(given, -picked, torch.zeros_like(picked))
        ctx.save_for_backward(steps, scale, task, mark, live, climbed, logp.exp(), given)
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        return nll.sum() if reduction == "sum" else nll.sum() / given.sum().clamp_min(1)

    @staticmethod
    def backward(ctx, g):
        steps, scale, task, mark, live, climbed, prob, given = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / given.sum().clamp_min(1)
        g = torch.where(given, g.expand(given.shape), torch.zeros_like(prob[:, 0]))
        hit = F.one_hot(mark.clamp_min(0), prob.shape[1]).to(prob.dtype)
        d_logit = g[:, None] * (prob - hit)
        d_scale = torch.zeros_like(scale).index_add_(0, task, (d_logit * climbed).sum(1))
        d_climbed = d_logit * scale[task][:, None]
        # a step takes part in every category at or above it
        d_gap = d_climbed[:, 1:].flip(1).cumsum(1).flip(1) * live[task]
        d_steps = torch.zeros_like(steps).index_add_(0, task, -d_gap)
        return d_gap.sum(1), d_steps, d_scale, None, None, None, None


class ExaminerDisagreement(torch.autograd.Function):
    """Weighted standard deviation of the marks that one candidate received, row by row.

    Args:
        marks: (..., J) marks; absent ones may hold anything, NaN included.
        weight: (J,) or (..., J) reliability weights.
        present: (..., J) bool.
        ddof: subtracted from the total weight of the row. Rows whose total does not exceed it, and rows without
            any disagreement, give 0 and pass no gradient.
    """

    @staticmethod
    def forward(ctx, marks, weight, present, ddof):
        w = torch.where(present, weight, torch.zeros_like(weight))
        x = torch.where(present, marks, torch.zeros_like(marks))
        total = w.sum(-1, keepdim=True)
        mean = (w * x).sum(-1, keepdim=True) / torch.where(total > 0, total, torch.ones_like(total))
        dev = torch.where(present, x - mean, torch.zeros_like(x))
        free = total - ddof
        usable = free > 0
        free = torch.where(usable, free, torch.ones_like(free))
        var = (w * dev**2).sum(-1, keepdim=True) / free
        counted = w > 0
        low = x.masked_fill(~counted, float("inf")).amin(-1, keepdim=True)
        high = x.masked_fill(~counted, float("-inf")).amax(-1, keepdim=True)
        usable = usable & (high > low) & (var > 0)
        std = torch.where(usable, var, torch.zeros_like(var)).sqrt()
        ctx.save_for_backward(w, dev, free, var, std, usable, present)
        ctx.shapes = marks.shape, weight.shape
        return std.squeeze(-1)

    @staticmethod
    def backward(ctx, g):
        w, dev, free, var, std, usable, present = ctx.saved_tensors
        safe = torch.where(usable, std, torch.ones_like(std))
        d_var = torch.where(usable, 0.5 * g[..., None] / safe, torch.zeros_like(std))
        d_marks = d_var * 2.0 * w * dev / free
        d_weight = torch.where(present, d_var * (dev**2 - var) / free, torch.zeros_like(dev))
        marks_shape, weight_shape = ctx.shapes
        return d_marks.sum_to_size(marks_shape), d_weight.sum_to_size(weight_shape), None, None


def pass_loss(ability, difficulty, severity, table: MarkTable, anchor: bool = False):
    """Pass/fail loss of a :class:`MarkTable`."""
    index = torch.stack([table.candidate, table.task, table.examiner], dim=1)
    weight = torch.ones_like(table.mark) if table.weight is None else table.weight
    return FacetPassLoss.apply(ability, difficulty, severity, table.mark, weight, index, anchor)


def partial_credit(measure, steps, scale, task, mark, levels, reduction: str = "mean"):
    """Partial credit loss; ``reduction`` as in the losses of torch."""
    if reduction not in ("none", "sum", "mean"):
        raise ValueError(reduction)
    return PartialCreditNLL.apply(measure, steps, scale, task, mark, levels, reduction)


def disagreement(marks, weight, present, ddof: float = 0.0):
    """Spread of a panel; see :class:`ExaminerDisagreement`."""
    return ExaminerDisagreement.apply(marks, weight, present, ddof)


class FacetModel(nn.Module):
    """Candidate, task and examiner measures fitted jointly."""

    def __init__(self, candidates: int, tasks: int, examiners: int, anchor: bool = True):
        super().__init__()
        self.ability = nn.Parameter(torch.zeros(candidates))
        self.difficulty = nn.Parameter(torch.zeros(tasks))
        self.severity = nn.Parameter(torch.zeros(examiners))
        self.anchor = anchor

    def forward(self, table: MarkTable) -> torch.Tensor:
        return pass_loss(self.ability, self.difficulty, self.severity, table, self.anchor)
