"""Ridge flow and minutiae scoring for latent fingermarks.

A lifted mark is small, smudged and never square.  The enhancement network
predicts ridge gradients and a clarity map; what follows it is classical: the
averaged squared-gradient field gives orientation and coherence, and the
minutiae found along the ridges are compared with those of a reference print.

The classical part sits inside the training loop, hence the explicit backward
passes.  Angles are radians, positions pixels at 500 ppi.
"""

import math
from typing import List, NamedTuple, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RIDGE_PERIOD_PX = 9.0
DEFAULT_RADIUS = 4
DIRECTION_SPREAD = 0.45
POSITION_SPREAD = 12.0
TINY = 1e-9


class Minutiae(NamedTuple):
    """Positions (n, 2) in pixels, directions (n,) in radians."""

    xy: Tensor
    direction: Tensor


class RidgeField(NamedTuple):
    orientation: Tensor
    coherence: Tensor
    energy: Tensor


def _window_mean(image: Tensor, radius: int) -> Tensor:
    """Mean over a square window; at the border only pixels of the image count."""
    if radius == 0:
        return image
    return F.avg_pool2d(
        image[:, None],
        kernel_size=2 * radius + 1,
        stride=1,
        padding=radius,
        count_include_pad=False,
    )[:, 0]


def wrap_half_turn(angle: Tensor) -> Tensor:
    """Fold an orientation into (-pi/2, pi/2]."""
    return angle - math.pi * torch.ceil(angle / math.pi - 0.5)


def central_gradients(image: Tensor) -> Tuple[Tensor, Tensor]:
    """Horizontal and vertical differences, edge pixels replicated."""
    padded = F.pad(image[:, None], (1, 1, 1, 1), mode="replicate")[:, 0]
    gx = 0.5 * (padded[:, 1:-1, 2:] - padded[:, 1:-1, :-2])
    gy = 0.5 * (padded[:, 2:, 1:-1] - padded[:, :-2, 1:-1])
    return gx, gy


class RidgeOrientation(torch.autograd.Function):
    """Averaged squared gradients -> (orientation, coherence, energy).

    ``gx`` and ``gy`` are (batch, height, width).  The tensor components are
    averaged over windows of half-width ``radius`` which are cut at the border.
    ``coherence`` lies in [0, 1]; ``energy`` is the trace of the tensor.
    """

    @staticmethod
    def forward(ctx, gx, gy, radius):
        gxx = _window_mean(gx * gx, radius)
        gyy = _window_mean(gy * gy, radius)
        gxy = _window_mean(gx * gy, radius)

        diff = gxx - gyy
        twice = 2.0 * gxy
        energy = gxx + gyy
        strength = torch.sqrt(diff * diff + twice * twice + TINY**2)
        coherence = strength / (energy + TINY)
        # ridges run across the gradient
        orientation = wrap_half_turn(0.5 * torch.atan2(twice, diff) + 0.5 * math.pi)

        ctx.radius = radius
        ctx.save_for_backward(gx, gy, diff, twice, strength, energy)
        return orientation, coherence, energy

    @staticmethod
    def backward(ctx, g_orientation, g_coherence, g_energy):
        gx, gy, diff, twice, strength, energy = ctx.saved_tensors

        sq = strength * strength
        trace = energy + TINY
        d_diff = -0.5 * g_orientation * twice / sq + g_coherence * diff / (strength * trace)
        d_twice = 0.5 * g_orientation * diff / sq + g_coherence * twice / (strength * trace)
        d_trace = g_energy - g_coherence * strength / (trace * trace)

        a_xx = _window_mean(d_trace + d_diff, ctx.radius)
        a_yy = _window_mean(d_trace - d_diff, ctx.radius)
        a_xy = _window_mean(2.0 * d_twice, ctx.radius)

        grad_gx = grad_gy = None
        if ctx.needs_input_grad[0]:
            grad_gx = 2.0 * gx * a_xx + gy * a_xy
        if ctx.needs_input_grad[1]:
            grad_gy = 2.0 * gy * a_yy + gx * a_xy
        return grad_gx, grad_gy, None


def ridge_field(image: Tensor, radius: int = DEFAULT_RADIUS) -> RidgeField:
    """Orientation, coherence and energy of a batch of grey images."""
    gx, gy = central_gradients(image)
    return RidgeField(*RidgeOrientation.apply(gx, gy, radius))


class ClarityMap(nn.Module):
    """Clarity in [0, 1] per pixel from the coherence and the network's logit."""

    class QualityClampSte(torch.autograd.Function):
        """Clamp to [low, high] with a one-sided straight-through gradient.

        Surrogate by design: inside the interval the gradient is the identity.
        Outside it is dropped only where a descent step would push the value
        further out; a step that brings the value back is let through as is,
        although the clamp itself is flat there.
        """

        @staticmethod
        def forward(ctx, x, low, high):
            ctx.save_for_backward(x)
            ctx.bounds = (low, high)
            return x.clamp(low, high)

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            low, high = ctx.bounds
            leaves_below = (x < low) & (grad > 0)
            leaves_above = (x > high) & (grad < 0)
            blocked = leaves_below | leaves_above
            return grad.masked_fill(blocked, 0.0), None, None

    def __init__(self, gain: float = 1.2, low: float = 0.0, high: float = 1.0):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain))
        self.offset = nn.Parameter(torch.tensor(0.0))
        self.low, self.high = low, high

    def forward(self, coherence: Tensor, logit: Optional[Tensor] = None) -> Tensor:
        raw = self.gain * coherence + self.offset
        if logit is not None:
            raw = raw + 0.5 * torch.tanh(logit)
        return self.QualityClampSte.apply(raw, self.low, self.high)


class MinutiaePairScore(torch.autograd.Function):
    """Likeness of paired minutiae.

    Args:
        query_xy (Tensor[M, 2]), query_dir (Tensor[M]): the mark.
        ref_xy (Tensor[N, 2]), ref_dir (Tensor[N]): the reference print.
        pairs (LongTensor[P, 2]): rows ``(query index, reference index)``.  One
            minutia may stand in any number of pairs.
        sigma (float): positional spread.
        kappa (float): concentration of the direction term.

    Returns:
        score (Tensor[P]): ``exp(-d^2 / (2 sigma^2) + kappa (cos(delta) - 1))``
        close (BoolTensor[P]): within two spreads; carries no gradient.
    """

    @staticmethod
    def forward(query_xy, query_dir, ref_xy, ref_dir, pairs, sigma, kappa):
        q, r = pairs[:, 0], pairs[:, 1]
        offset = query_xy[q] - ref_xy[r]
        turn = query_dir[q] - ref_dir[r]
        dist2 = offset.square().sum(-1)
        score = torch.exp(-dist2 / (2.0 * sigma**2) + kappa * (torch.cos(turn) - 1.0))
        close = dist2 < (2.0 * sigma) ** 2
        return score, close

    @staticmethod
    def setup_context(ctx, inputs, output):
        query_xy, query_dir, ref_xy, ref_dir, pairs, sigma, kappa = inputs
        score, close = output
        ctx.mark_non_differentiable(close)
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(query_xy, query_dir, ref_xy, ref_dir, pairs, score)
        ctx.sigma = sigma
        ctx.kappa = kappa

    @staticmethod
    def backward(ctx, g_score, _g_close):
        if g_score is None:
            return (None,) * 7
        query_xy, query_dir, ref_xy, ref_dir, pairs, score = ctx.saved_tensors
        q, r = pairs[:, 0], pairs[:, 1]
        weight = g_score * score
        d_offset = -(weight / ctx.sigma**2)[:, None] * (query_xy[q] - ref_xy[r])
        d_turn = -weight * ctx.kappa * torch.sin(query_dir[q] - ref_dir[r])

        need = ctx.needs_input_grad
        g_qxy = torch.zeros_like(query_xy).index_add(0, q, d_offset) if need[0] else None
        g_qdir = torch.zeros_like(query_dir).index_add(0, q, d_turn) if need[1] else None
        g_rxy = torch.zeros_like(ref_xy).index_add(0, r, -d_offset) if need[2] else None
        g_rdir = torch.zeros_like(ref_dir).index_add(0, r, -d_turn) if need[3] else None
        return g_qxy, g_qdir, g_rxy, g_rdir, None, None, None


class Aligner(nn.Module):
    """Rigid motion of the mark over the print, one per candidate."""

    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2))
        self.angle = nn.Parameter(torch.zeros(()))

    def forward(self, mark: Minutiae) -> Minutiae:
        c, s = torch.cos(self.angle), torch.sin(self.angle)
        x, y = mark.xy.unbind(-1)
        moved = torch.stack([c * x - s * y, s * x + c * y], dim=-1) + self.shift
        return Minutiae(moved, mark.direction + self.angle)


def candidate_pairs(mark: Minutiae, reference: Minutiae, limit: float = 4 * POSITION_SPREAD) -> Tensor:
    """Every (mark, reference) pair closer than ``limit`` pixels."""
    with torch.no_grad():
        return (torch.cdist(mark.xy, reference.xy) < limit).nonzero()


def comparison_score(mark: Minutiae, reference: Minutiae, pairs: Optional[Tensor] = None) -> Tensor:
    """Sum of pair likeness divided by the geometric mean of the counts."""
    if pairs is None:
        pairs = candidate_pairs(mark, reference)
    if pairs.numel() == 0:
        return mark.xy.sum() * 0.0
    kappa = 1.0 / DIRECTION_SPREAD**2
    score, _ = MinutiaePairScore.apply(
        mark.xy, mark.direction, reference.xy, reference.direction, pairs, POSITION_SPREAD, kappa
    )
    return score.sum() / math.sqrt(mark.xy.shape[0] * reference.xy.shape[0])


class EnhancementLoss(nn.Module):
    """Penalty on enhanced marks: flow must agree with an examiner's sketch.

    The orientation term uses the doubled angle, so it does not care about the
    half-turn at which the field is cut.
    """

    def __init__(self, radius: int = DEFAULT_RADIUS, coherence_weight: float = 0.1):
        super().__init__()
        self.radius = radius
        self.coherence_weight = coherence_weight
        self.clarity = ClarityMap()

    def forward(self, image: Tensor, sketch: Tensor, mask: Tensor) -> Tensor:
        flow = ridge_field(image, self.radius)
        quality = self.clarity(flow.coherence)
        miss = 1.0 - torch.cos(2.0 * (flow.orientation - sketch))
        weight = mask * (0.25 + quality)
        term = (weight * miss).sum() / weight.sum().clamp(min=1.0)
        return term - self.coherence_weight * (mask * flow.coherence).mean()


def align(mark: Minutiae, reference: Minutiae, steps: int = 60, lr: float = 0.5) -> List[float]:
    aligner = Aligner()
    optimiser = torch.optim.Adam(
        [{"params": [aligner.shift], "lr": lr}, {"params": [aligner.angle], "lr": 0.02 * lr}]
    )
    trace = []
    for _ in range(steps):
        optimiser.zero_grad()
        loss = -comparison_score(aligner(mark), reference)
        if loss.requires_grad and loss.grad_fn is not None:
            loss.backward()
            optimiser.step()
        trace.append(loss.item())
    return trace


def synthetic_ridges(height: int, width: int, period: float = RIDGE_PERIOD_PX) -> Tensor:
    """Concentric ridges around a point below the image, like a plain arch."""
    y, x = torch.meshgrid(torch.arange(float(height)), torch.arange(float(width)), indexing="ij")
    distance = torch.sqrt((x - 0.5 * width) ** 2 + (y - 1.3 * height) ** 2)
    return 0.5 + 0.5 * torch.cos(2 * math.pi * distance / period)


if __name__ == "__main__":
    torch.manual_seed(11)
    picture = (synthetic_ridges(48, 36)[None] + 0.1 * torch.randn(2, 48, 36)).requires_grad_()
    criterion = EnhancementLoss()
    value = criterion(picture, torch.zeros(2, 48, 36), torch.ones(2, 48, 36))
    value.backward()
    print("flow loss", value.item(), "image gradient", picture.grad.norm().item())

    print_ = Minutiae(100 * torch.rand(12, 2), 2 * math.pi * torch.rand(12))
    lifted = Minutiae(print_.xy[:8] + 3.0, print_.direction[:8] + 0.05)
    print("alignment", align(lifted, print_)[::15])
