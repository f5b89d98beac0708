"""Differentiable pieces of the field simulators."""
from typing import Sequence, Tuple, Union

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function

BOUNDARY = {"periodic": "circular", "replicate": "replicate", "reflect": "reflect"}


def laplacian(field: Tensor, boundary: str) -> Tensor:
    """Five point Laplacian of (B, H, W) with unit spacing."""
    p = F.pad(field.unsqueeze(1), (1, 1, 1, 1), mode=BOUNDARY[boundary]).squeeze(1)
    return (p[:, :-2, 1:-1] + p[:, 2:, 1:-1] + p[:, 1:-1, :-2] + p[:, 1:-1, 2:]) - 4.0 * field


class GrayScottStep(Function):
    """One explicit Euler step of the Gray-Scott reaction-diffusion system.

    ::

        u' = u + dt * (d_u * lap(u) - u v^2 + feed * (1 - u))
        v' = v + dt * (d_v * lap(v) + u v^2 - (feed + kill) * v)

    Parameters
    ----------
    u, v : Tensor, shape (B, H, W)
        Concentrations, ``H`` and ``W`` at least 2.
    feed, kill : Tensor, shape () or (B, 1, 1)
        Feed and removal rates, common to all samples or one per sample.
    diffusion : tuple of float
        ``(d_u, d_v)``.
    dt : float
        Time step.
    boundary : {'periodic', 'replicate', 'reflect'}
        How the fields go on beyond the border: wrapped around, with the border
        cell repeated (no flux through the cell faces), or mirrored at the
        centre of the border cell.

    Returns
    -------
    (u', v') : pair of Tensor, shape (B, H, W)
        Differentiable with respect to `u`, `v`, `feed` and `kill`.
    """

    @staticmethod
    def forward(u, v, feed, kill, diffusion=(0.16, 0.08), dt=1.0, boundary="periodic"):
        d_u, d_v = diffusion
        reaction = u * v * v
        u_next = u + dt * (d_u * laplacian(u, boundary) - reaction + feed * (1 - u))
        v_next = v + dt * (d_v * laplacian(v, boundary) + reaction - (feed + kill) * v)
        return u_next, v_next

    @staticmethod
    def setup_context(ctx, inputs, output):
        u, v, feed, kill, diffusion, dt, boundary = inputs
        ctx.save_for_backward(u, v, feed, kill)
        ctx.diffusion, ctx.dt, ctx.boundary = diffusion, dt, boundary

    @staticmethod
    def backward(ctx, gu, gv):
        u, v, feed, kill = ctx.saved_tensors
        d_u, d_v = ctx.diffusion
        dt = ctx.dt
        turnover = gv - gu
        grad_u = gu + dt * (d_u * laplacian(gu, ctx.boundary) + v * v * turnover - feed * gu)
        grad_v = gv + dt * (d_v * laplacian(gv, ctx.boundary) + 2 * u * v * turnover - (feed + kill) * gv)
        grad_feed = grad_kill = None
        if ctx.needs_input_grad[2]:
            grad_feed = (dt * ((1 - u) * gu - v * gv)).sum_to_size(feed.shape)
        if ctx.needs_input_grad[3]:
            grad_kill = (-dt * v * gv).sum_to_size(kill.shape)
        return grad_u, grad_v, grad_feed, grad_kill, None, None, None


def simulate(state: Tuple[Tensor, Tensor], params: dict, steps: int, boundary: str = "periodic"):
    """Roll the Gray-Scott system forward; ``params`` has ``feed``, ``kill`` and maybe ``diffusion``, ``dt``."""
    u, v = state
    for _ in range(steps):
        u, v = GrayScottStep.apply(u, v, params["feed"], params["kill"],
                                   params.get("diffusion", (0.16, 0.08)), params.get("dt", 1.0), boundary)
    return u, v


def _planck_pieces(x):
    safe = torch.where(x > 0, x, torch.ones_like(x))
    decay = torch.exp(-safe)
    span = -torch.expm1(-safe)
    bell = torch.where(x > 0, (safe / span) ** 2 * decay, torch.ones_like(x))
    xcoth = torch.where(x > 0, safe * (1 + decay) / span, torch.full_like(x, 2.0))
    x2 = x * x
    series = x * (1 / 3 - x2 * (1 / 90 - x2 * (1 / 2520 - x2 / 75600)))
    exact = (1 + decay) / span - 2 * safe * decay / span ** 2
    return bell, xcoth, torch.where(x < 0.05, series, exact)


class ThermalSZ(Function):
    """Thermal plus kinematic Sunyaev-Zel'dovich intensity in units of I0.

    x = h nu / k T >= 0, Compton y and kinematic amplitude b broadcast together:
    h(x) * (y * (x coth(x/2) - 4) - b), h(x) = x^4 e^x / (e^x - 1)^2.
    """

    @staticmethod
    def forward(x, y, b):
        bell, xcoth, _ = _planck_pieces(x)
        return x * x * bell * (y * (xcoth - 4) - b)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, y, b = ctx.saved_tensors
        bell, xcoth, xcoth_slope = _planck_pieces(x)
        h = x * x * bell
        h_slope = x * bell * (4 - xcoth)
        gx = grad * (h_slope * (y * (xcoth - 4) - b) + h * y * xcoth_slope)
        return gx.sum_to_size(x.shape), (grad * h * (xcoth - 4)).sum_to_size(y.shape), (-grad * h).sum_to_size(b.shape)


def band_average(x: Tensor, response: Tensor, y: Tensor, b: Tensor) -> Tensor:
    """(bands, n) response-weighted mean over the frequency samples ``x`` (n,), for clusters y, b (k,)."""
    signal = ThermalSZ.apply(x, y[:, None], b[:, None])
    return signal @ response.T / response.sum(-1)


class CellCentreSnap(Function):
    """Move waypoints to the centre of the occupancy grid cell they fall in.

    Points off the map go to the nearest border cell. The true derivative is zero
    almost everywhere, so the backward pass is a straight-through surrogate on
    purpose: identity for points on the map (each coordinate by itself), zero for
    coordinates off the map.
    """

    @staticmethod
    def forward(ctx, points, origin: Sequence[float], shape: Sequence[int], cell: Union[int, float] = 0.05):
        origin = points.new_tensor(origin)
        limit = torch.as_tensor(shape, dtype=points.dtype, device=points.device)
        index = torch.floor((points - origin) / cell)
        ctx.save_for_backward((index >= 0) & (index < limit))
        index = torch.minimum(index.clamp_min(0), limit - 1)
        return origin + (index + 0.5) * cell

    @staticmethod
    def backward(ctx, grad):
        inside, = ctx.saved_tensors
        return grad * inside, None, None, None


def snap_path(path: Tensor, grid: dict) -> Tensor:
    return CellCentreSnap.apply(path, grid["origin"], grid["shape"], grid.get("cell", 0.05))
