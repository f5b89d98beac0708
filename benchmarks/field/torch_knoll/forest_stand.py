import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

BREAST_HEIGHT = 1.3
CM2_TO_M2 = math.pi / 40000.0


def _neighbours(xy, plot, radius):
    diff = xy[:, None, :] - xy[None, :, :]
    dist = diff.square().sum(-1).sqrt()
    near = (dist < radius) & (plot[:, None] == plot[None, :])
    near = near & ~torch.eye(len(xy), dtype=torch.bool, device=xy.device)
    return diff, dist, near


class HegyiCompetition(Function):
    """Hegyi's distance-weighted size ratio: CI_i = sum_j (d_j / d_i) / (r_ij + offset) over neighbours in the plot.

    dbh (N,), xy (N, 2), plot (N,) integer ids; trees farther than ``radius`` do not count. Returns (N,).
    """

    @staticmethod
    def forward(ctx, dbh, xy, plot, radius=8.0, offset=0.5):
        _, dist, near = _neighbours(xy, plot, radius)
        kernel = near / (dist + offset)
        ci = (kernel @ dbh) / dbh
        ctx.save_for_backward(dbh, xy, plot, ci)
        ctx.radius, ctx.offset = radius, offset
        return ci

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        dbh, xy, plot, ci = ctx.saved_tensors
        diff, dist, near = _neighbours(xy, plot, ctx.radius)
        kernel = near / (dist + ctx.offset)
        g_dbh = g_xy = None
        if ctx.needs_input_grad[0]:
            g_dbh = kernel.t() @ (g / dbh) - g * ci / dbh
        if ctx.needs_input_grad[1]:
            ratio = dbh[None, :] / dbh[:, None]
            slope = -kernel.square() * ratio * g[:, None]
            unit = diff / dist.clamp_min(1e-12)[..., None]
            # a pair moves both of its ends
            g_xy = 2.0 * (slope[..., None] * unit).sum(1)
        return g_dbh, g_xy, None, None, None


class PlotSummary(Function):
    """Basal area (m2/ha) and quadratic mean diameter (cm) of each plot.

    Shapes: dbh (N,) in cm, positive; expansion (N,) stems per hectare that a tally tree stands for; plot (N,) ids in
    [0, n_plots); alive (N,) bool or None. Dead stems and empty plots give zeros.
    """

    @staticmethod
    def forward(ctx, dbh, expansion, plot, n_plots, alive=None):
        e = expansion if alive is None else expansion * alive
        stems = dbh.new_zeros(n_plots).index_add(0, plot, e)
        square = dbh.new_zeros(n_plots).index_add(0, plot, e * dbh.square())
        has = stems > 0
        qmd = torch.where(has, square / torch.where(has, stems, torch.ones_like(stems)), torch.zeros_like(square)).sqrt()
        ctx.save_for_backward(dbh, expansion, plot, stems, qmd)
        ctx.alive = alive
        return CM2_TO_M2 * square, qmd

    @staticmethod
    @once_differentiable
    def backward(ctx, g_ba, g_qmd):
        dbh, expansion, plot, stems, qmd = ctx.saved_tensors
        live = torch.ones_like(dbh) if ctx.alive is None else ctx.alive.to(dbh)
        denom = stems * qmd
        ok = denom > 0
        half = torch.where(ok, 0.5 * g_qmd / torch.where(ok, denom, torch.ones_like(denom)), torch.zeros_like(denom))
        gb, gq, q2 = CM2_TO_M2 * g_ba[plot], half[plot], qmd.square()[plot]
        g_dbh = 2.0 * dbh * expansion * live * (gb + gq)
        g_exp = live * (gb * dbh.square() + gq * (dbh.square() - q2))
        return g_dbh, g_exp, None, None, None


class TaperDiameter(Function):
    # dbh, height: (N,); at: (N, K) heights up the stem; form: (S,) exponent per species
    @staticmethod
    def forward(ctx, dbh, height, at, form, species):
        span = (height - BREAST_HEIGHT)[:, None]
        u = ((height[:, None] - at) / span).clamp(min=0)
        p = form[species][:, None]
        d = dbh[:, None] * u ** p
        ctx.save_for_backward(dbh, height, at, form, species, u, d)
        return d

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        dbh, height, at, form, species, u, d = ctx.saved_tensors
        span = (height - BREAST_HEIGHT)[:, None]
        p = form[species][:, None]
        inside = u > 0
        safe = torch.where(inside, u, torch.ones_like(u))
        gd = torch.where(inside, g * d, torch.zeros_like(g))
        g_dbh = gd.sum(1) / dbh
        g_u = gd * p / safe
        g_height = (g_u * (at - BREAST_HEIGHT) / span.square()).sum(1)
        g_at = -g_u / span
        g_form = torch.zeros_like(form)
        g_form[species] = (gd * safe.log()).sum(1)
        return g_dbh, g_height, g_at, g_form, None


class StemProfile(torch.nn.Module):
    def __init__(self, n_species, init=0.8):
        super().__init__()
        self.form = torch.nn.Parameter(torch.full((n_species,), init))

    def forward(self, dbh, height, at, species):
        return TaperDiameter.apply(dbh, height, at, self.form, species)

    def volume(self, dbh, height, species, sections=20):
        frac = (torch.arange(sections, dtype=dbh.dtype) + 0.5) / sections
        d = self(dbh, height, height[:, None] * frac, species)
        return CM2_TO_M2 * d.square().sum(1) * height / sections
