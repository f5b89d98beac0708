"""Building blocks of the age-structured assessment model."""
import torch
from torch import nn
from torch.autograd import Function


def _sum_to(grad, shape):
    """Undo broadcasting: sum ``grad`` down to ``shape``."""
    extra = grad.dim() - len(shape)
    if extra > 0:
        grad = grad.sum(tuple(range(extra)))
    axes = tuple(i for i, s in enumerate(shape) if s == 1 and grad.shape[i] != 1)
    return grad.sum(axes, keepdim=True) if axes else grad


def _removal_fraction(z):
    """phi(z) = (1 - exp(-z)) / z and its derivative, smooth through z = 0."""
    tiny = z.abs() < 2e-2
    zs = torch.where(tiny, torch.ones_like(z), z)
    phi = -torch.expm1(-zs) / zs
    dphi = (torch.exp(-zs) - phi) / zs

    zt = torch.where(tiny, z, torch.zeros_like(z))
    series = torch.zeros_like(z)
    dseries = torch.zeros_like(z)
    power, fact = torch.ones_like(z), 1.0
    prev = torch.zeros_like(z)
    for k in range(8):
        fact *= k + 1
        sign = -1.0 if k % 2 else 1.0
        series = series + sign * power / fact
        dseries = dseries + sign * k * prev / fact
        prev, power = power, power * zt
    return torch.where(tiny, series, phi), torch.where(tiny, dseries, dphi)


class BaranovCatch(Function):
    """Baranov catch equation with separable fishing mortality.

    F[y, a] = effort[y] * selectivity[a],  Z = F + M
    catch   = N * F / Z * (1 - exp(-Z))
    left    = N * exp(-Z)

    Both outputs are differentiable.
    """

    @staticmethod
    def forward(numbers, effort, selectivity, mortality):
        fishing = effort[..., :, None] * selectivity
        z = fishing + mortality
        phi, _ = _removal_fraction(z)
        return numbers * fishing * phi, numbers * torch.exp(-z)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad_catch, grad_left):
        numbers, effort, selectivity, mortality = ctx.saved_tensors
        fishing = effort[..., :, None] * selectivity
        z = fishing + mortality
        phi, dphi = _removal_fraction(z)
        surv = torch.exp(-z)

        d_z = grad_catch * numbers * fishing * dphi - grad_left * numbers * surv
        d_f = grad_catch * numbers * phi + d_z
        g_n = g_e = g_s = g_m = None
        if ctx.needs_input_grad[0]:
            g_n = _sum_to(grad_catch * fishing * phi + grad_left * surv, numbers.shape)
        if ctx.needs_input_grad[1]:
            g_e = _sum_to((d_f * selectivity).sum(-1), effort.shape)
        if ctx.needs_input_grad[2]:
            g_s = _sum_to(d_f * effort[..., :, None], selectivity.shape)
        if ctx.needs_input_grad[3]:
            g_m = _sum_to(d_z, mortality.shape)
        return g_n, g_e, g_s, g_m


def baranov_catch(numbers, effort, selectivity, mortality):
    """Catch and survivors at age.

    Args:
        numbers: beginning-of-year abundance, (..., years, ages).
        effort: fully selected fishing mortality, (..., years), >= 0.
        selectivity: (ages,), >= 0.
        mortality: natural mortality >= 0, anything that broadcasts against
            (..., years, ages); a float is fine.

    Returns:
        (catch, survivors), both shaped like the broadcast of all arguments.
    """
    mortality = torch.as_tensor(mortality, dtype=numbers.dtype, device=numbers.device)
    return BaranovCatch.apply(numbers, effort, selectivity, mortality)


class CohortProjection(Function):
    """Push an age vector forward through time.

    Args:
        start: (..., A) numbers at age in the first year.
        survival: (T, A) fraction alive after each year, common to all stocks.
        recruits: (..., T) age-0 fish entering at the end of each year.
        plus_group: if True the last age is an accumulator ("A-1 and older"); otherwise fish
            leave the model after the last age.

    Returns:
        (..., T + 1, A), the first entry being ``start``.
    """

    @staticmethod
    def forward(ctx, start, survival, recruits, plus_group=False):
        steps = survival.shape[0]
        states = [start]
        n = start
        for t in range(steps):
            alive = n * survival[t]
            nxt = torch.cat([recruits[..., t : t + 1], alive[..., :-1]], -1)
            if plus_group:
                nxt[..., -1] += alive[..., -1]
            states.append(nxt)
            n = nxt
        out = torch.stack(states, -2)
        ctx.save_for_backward(survival, out)
        ctx.plus_group = plus_group
        return out

    @staticmethod
    def backward(ctx, grad):
        survival, out = ctx.saved_tensors
        steps, ages = survival.shape
        lead = tuple(range(grad.dim() - 2))
        g_surv = torch.zeros_like(survival)
        g_rec = grad.new_zeros(*grad.shape[:-2], steps)
        lam = grad[..., steps, :]
        for t in range(steps - 1, -1, -1):
            g_rec[..., t] = lam[..., 0]
            shifted = lam[..., 1:]
            flow = shifted * out[..., t, :-1]
            g_surv[t, :-1] = flow.sum(lead) if lead else flow
            back = torch.zeros_like(lam)
            back[..., :-1] = shifted * survival[t, :-1]
            if ctx.plus_group:
                back[..., -1] = lam[..., -1] * survival[t, -1]
            lam = grad[..., t, :] + back
        return lam, g_surv, g_rec, None


class StockModel(nn.Module):
    """Numbers at age and predicted catch for one or several stocks."""

    def __init__(self, ages: int, natural_mortality: float = 0.2, plus_group: bool = True):
        super().__init__()
        self.logit_sel = nn.Parameter(torch.linspace(-2.0, 2.0, ages))
        self.natural_mortality = natural_mortality
        self.plus_group = plus_group

    def forward(self, start, log_effort, log_recruits):
        effort = log_effort.exp()
        sel = torch.sigmoid(self.logit_sel)
        surv = torch.exp(-(effort[:, None] * sel + self.natural_mortality))
        numbers = CohortProjection.apply(start, surv, log_recruits.exp(), self.plus_group)
        catch, _ = baranov_catch(numbers[..., :-1, :], effort, sel, self.natural_mortality)
        return numbers, catch
