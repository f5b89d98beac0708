"""Scores of judged sports (diving, gymnastics, skating), differentiable for sensitivity studies of panels."""

from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function


class PanelRules(NamedTuple):
    drop: int = 1  # marks struck out at either end
    three_judge: bool = False  # diving: as if three judges had marked
    ddof: int = 0


DIVING = PanelRules(drop=2, three_judge=True)
SKATING = PanelRules(drop=1)


def _kept_marks(marks: Tensor, present: Tensor, drop: int) -> Tensor:
    """Marks that count; a panel too small to strike any keeps all."""
    order = marks.masked_fill(~present, float("inf")).argsort(dim=1, stable=True)
    place = torch.empty_like(order).scatter_(
        1, order, torch.arange(marks.shape[1], device=marks.device).expand_as(order)
    )
    n = present.sum(dim=1, keepdim=True)
    struck = (place < drop) | (place >= n - drop)
    return present & (~struck | (n <= 2 * drop))


class TrimmedPanel(Function):
    # marks (R, J), difficulty (R,), present (R, J) bool, drop int, three_judge bool -> (R,)
    # A routine that nobody marked scores zero.

    @staticmethod
    def forward(
        ctx,
        marks: Tensor,
        difficulty: Tensor,
        present: Tensor,
        drop: int = 1,
        three_judge: bool = False,
    ):
        kept = _kept_marks(marks, present, drop)
        share = kept.to(marks.dtype) / kept.sum(dim=1, keepdim=True).clamp_min(1)
        if three_judge:
            share = 3.0 * share
        execution = (share * marks).sum(dim=1)
        ctx.save_for_backward(difficulty, share, execution)
        return difficulty * execution

    @staticmethod
    def backward(ctx, grad: Tensor):
        difficulty, share, execution = ctx.saved_tensors
        return (grad * difficulty)[:, None] * share, grad * execution, None, None, None


class ElementDeductions(Function):
    """Points taken from each routine for the faults of its elements.

    A single element costs at most the ceiling of its routine, and the sum is scaled with the severity set by the
    referee: ``severity[r] * sum_e min(fault[e], ceiling[r])`` over the elements of ``r``.

    Args:
        fault (Tensor): (E,) faults, all routines after one another.
        ceiling (Tensor): (R,).
        severity (Tensor): (R,).
        routine (LongTensor): (E,) the routine of each element, in any order.
    """

    @staticmethod
    def forward(fault, ceiling, severity, routine):
        charged = torch.minimum(fault, ceiling[routine])
        return severity * torch.zeros_like(severity).index_add(0, routine, charged)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        fault, ceiling, severity, routine = ctx.saved_tensors
        over = fault > ceiling[routine]
        charged = torch.where(over, ceiling[routine], fault)
        per_element = (grad * severity)[routine]
        g_fault = per_element.masked_fill(over, 0.0)
        g_ceiling = torch.zeros_like(ceiling)
        g_ceiling[routine[over]] += per_element[over]
        g_severity = grad * torch.zeros_like(severity).index_add(0, routine, charged)
        return g_fault, g_ceiling, g_severity, None


class JudgeStandardise(Function):
    """Brings all judges to a common mean and spread.

    Each judge's marks are standardised over the routines that the judge saw, then mapped to ``centre + spread * z``.
    Absent marks give zero.

    Args:
        marks (Tensor): (R, J).
        centre (Tensor): () or (J,).
        spread (Tensor): () or (J,).
        present (BoolTensor): (R, J).
        ddof (int): 0 or 1.
        eps (float): added to the variance.
    """

    @staticmethod
    def forward(ctx, marks, centre, spread, present, ddof=0, eps=1e-6):
        w = present.to(marks.dtype)
        n = w.sum(dim=0)
        mean = (w * marks).sum(dim=0) / n.clamp_min(1.0)
        resid = w * (marks - mean)
        freedom = (n - ddof).clamp_min(1.0)
        sd = torch.sqrt(resid.square().sum(dim=0) / freedom + eps)
        z = resid / sd
        ctx.save_for_backward(z, sd, w, n, freedom, centre, spread)
        return w * (centre + spread * z)

    @staticmethod
    def backward(ctx, grad):
        z, sd, w, n, freedom, centre, spread = ctx.saved_tensors
        grad = w * grad
        g_centre = grad.sum_to_size(centre.shape)
        g_spread = (grad * z).sum_to_size(spread.shape)
        gz = grad * spread
        mean_g = gz.sum(dim=0) / n.clamp_min(1.0)
        along = (gz * z).sum(dim=0) / freedom
        g_marks = w * (gz - mean_g - z * along) / sd
        return g_marks, g_centre, g_spread, None, None, None


def final_scores(
    marks: Tensor, difficulty: Tensor, present: Optional[Tensor] = None, rules: PanelRules = SKATING
):
    if present is None:
        present = torch.ones_like(marks, dtype=torch.bool)
    return TrimmedPanel.apply(marks, difficulty, present, rules.drop, rules.three_judge)


class Competition:
    """Marks of one event with its rules."""

    def __init__(self, routines: int, judges: int, rules: PanelRules = SKATING):
        self.shape, self.rules = (routines, judges), rules

    def totals(self, marks, difficulty, fault, ceiling, severity, routine):
        base = final_scores(marks, difficulty, rules=self.rules)
        return base - ElementDeductions.apply(fault, ceiling, severity, routine)

    def harmonise(self, marks, centre, spread, present):
        return JudgeStandardise.apply(marks, centre, spread, present, self.rules.ddof)
