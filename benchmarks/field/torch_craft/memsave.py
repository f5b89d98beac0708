"""Memory-saving layers for full-precision training (no quantisation, no offload).

The layers trade recomputation for activation memory.  All functions are single-process; the
sharded linear keeps its shards in one process as well and is what the unit tests of the real
tensor-parallel layer are compared with.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.utils import _pytree as pytree

SQRT_HALF = 0.7071067811865476
INV_SQRT_2PI = 0.3989422804014327

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "gelu": F.gelu,
    "silu": F.silu,
    "relu": F.relu,
    "relu2": lambda h: F.relu(h).square(),
}


def _activation_slope(name: str, h: Tensor) -> Tensor:
    if name == "gelu":
        cdf = 0.5 * (1.0 + torch.erf(h * SQRT_HALF))
        return cdf + h * INV_SQRT_2PI * torch.exp(-0.5 * h * h)
    if name == "silu":
        s = torch.sigmoid(h)
        return s * (1.0 + h * (1.0 - s))
    if name == "relu":
        return (h > 0).to(h.dtype)
    if name == "relu2":
        return F.relu(h)
    raise KeyError(name)


def _flat2d(t: Tensor) -> Tensor:
    return t.reshape(-1, t.shape[-1])


class CheckpointedMLP(torch.autograd.Function):
    """``act(x @ w1.T + b1) @ w2.T + b2``; only ``x`` and the parameters are kept.

    The hidden activations (by far the largest tensor of the block) are recomputed in backward.
    ``act`` is a key of :data:`ACTIVATIONS`.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, w1: Tensor, b1: Tensor, w2: Tensor, b2: Tensor,
                act: str = "gelu") -> Tensor:
        ctx.save_for_backward(x, w1, b1, w2)
        ctx.act = act
        return F.linear(ACTIVATIONS[act](F.linear(x, w1, b1)), w2, b2)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor):
        x, w1, b1, w2 = ctx.saved_tensors
        h = F.linear(x, w1, b1)
        a = ACTIVATIONS[ctx.act](h)
        g2 = _flat2d(grad_out)
        grad_w2 = g2.t() @ _flat2d(a)
        grad_b2 = g2.sum(0)
        del a
        grad_h = (grad_out @ w2) * _activation_slope(ctx.act, h)
        g1 = _flat2d(grad_h)
        grad_x = grad_h @ w1 if ctx.needs_input_grad[0] else None
        return grad_x, g1.t() @ _flat2d(x), g1.sum(0), grad_w2, grad_b2, None


class ReversibleCoupling(torch.autograd.Function):
    """Additive coupling ``y1 = x1 + f(x2); y2 = x2 + g(y1)`` that stores its outputs only.

    ``f`` and ``g`` are pure functions ``fn(x, params)``; their parameters come as one nested tree
    ``{"f": ..., "g": ...}`` that the caller has flattened (``spec`` rebuilds it).
    """

    @staticmethod
    def forward(ctx: Any, x1: Tensor, x2: Tensor, f: Callable, g: Callable,
                spec: pytree.TreeSpec, *leaves: Tensor) -> tuple[Tensor, Tensor]:
        params = pytree.tree_unflatten(list(leaves), spec)
        y1 = x1 + f(x2, params["f"])
        y2 = x2 + g(y1, params["g"])
        ctx.f, ctx.g, ctx.spec = f, g, spec
        ctx.save_for_backward(y1, y2, *leaves)
        return y1, y2

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, dy1: Tensor, dy2: Tensor):
        y1, y2, *leaves = ctx.saved_tensors
        leaves = [p.detach().requires_grad_() for p in leaves]
        params = pytree.tree_unflatten(leaves, ctx.spec)

        with torch.enable_grad():
            y1_ = y1.detach().requires_grad_()
            gy1 = ctx.g(y1_, params["g"])
        got_g = torch.autograd.grad(gy1, [y1_, *leaves], dy2, allow_unused=True)
        x2 = y2 - gy1.detach()
        dy1_total = dy1 + got_g[0]

        with torch.enable_grad():
            x2_ = x2.detach().requires_grad_()
            fx2 = ctx.f(x2_, params["f"])
        got_f = torch.autograd.grad(fx2, [x2_, *leaves], dy1_total, allow_unused=True)
        dx2 = dy2 + got_f[0]

        grads = []
        for a, b in zip(got_f[1:], got_g[1:]):
            grads.append(a if b is None else b if a is None else a + b)
        return (dy1_total, dx2, None, None, None, *grads)


class ColumnShardedLinear(torch.autograd.Function):
    """Column-parallel linear: shard ``r`` owns rows of the weight and of the output.

    ``x`` is (..., in), shard ``r`` is (out_r, in), ``bias`` is (sum of out_r,) or None.  The
    shards' outputs are gathered along the last axis.  Every rank sees the same ``x``, hence
    its gradient has to be reduced over the ranks.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, bias: Tensor | None, *shards: Tensor) -> Tensor:
        ctx.save_for_backward(x, *shards)
        ctx.has_bias = bias is not None
        y = torch.cat([x @ w.t() for w in shards], dim=-1)
        return y + bias if bias is not None else y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_out: Tensor):
        x, *shards = ctx.saved_tensors
        per_rank = grad_out.split([w.shape[0] for w in shards], dim=-1)
        grad_x = None
        if ctx.needs_input_grad[0]:
            partial = torch.stack([g @ w for g, w in zip(per_rank, shards)])
            grad_x = partial.mean(dim=0)  # all-reduce
        grad_bias = _flat2d(grad_out).sum(0) if ctx.has_bias else None
        flat_x = _flat2d(x)
        grad_w = [_flat2d(g).t() @ flat_x for g in per_rank]
        return (grad_x, grad_bias, *grad_w)


class SoftplusFromOutput(torch.autograd.Function):
    """Softplus ``log(1 + exp(beta * x)) / beta`` that keeps its output and not its input.

    The next layer saves the same tensor anyway, so nothing extra stays alive:
    ``sigmoid(beta * x) = 1 - exp(-beta * y)``.
    """

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor, beta: float) -> Tensor:
        z = beta * x
        return (torch.clamp(z, min=0.0) + torch.log1p(torch.exp(-z.abs()))) / beta

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        ctx.beta = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor):
        (y,) = ctx.saved_tensors
        return grad_out * -torch.expm1(-ctx.beta * y), None


class BiasDropoutScaleAdd(torch.autograd.Function):
    """``residual + gamma * keep * (x + bias) / (1 - p)`` with the keep mask given.

    x, residual: (..., D); bias and gamma (LayerScale): (D,); keep: bool, the shape of ``x``.
    """

    @staticmethod
    def forward(x: Tensor, bias: Tensor, residual: Tensor, gamma: Tensor, keep: Tensor,
                p: float) -> Tensor:
        return residual + gamma * ((x + bias) * keep / (1.0 - p))

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
        x, bias, _, gamma, keep, p = inputs
        ctx.save_for_backward(x, bias, gamma, keep)
        ctx.scale = 1.0 / (1.0 - p)

    @staticmethod
    def backward(ctx: Any, grad_out: Tensor):
        x, bias, gamma, keep = ctx.saved_tensors
        inner = grad_out * gamma * ctx.scale
        grad_x = inner * keep
        grad_bias = _flat2d(inner).sum(0)
        grad_gamma = _flat2d(grad_out * (x + bias) * keep * ctx.scale).sum(0)
        return grad_x, grad_bias, grad_out, grad_gamma, None, None


# ---------------------------------------------------------------------------------- modules
class LeanMLP(nn.Module):
    def __init__(self, dim: int, hidden: int, act: str = "gelu") -> None:
        super().__init__()
        self.fc1, self.fc2, self.act = nn.Linear(dim, hidden), nn.Linear(hidden, dim), act

    def forward(self, x: Tensor) -> Tensor:
        return CheckpointedMLP.apply(x, self.fc1.weight, self.fc1.bias, self.fc2.weight,
                                     self.fc2.bias, self.act)


def _mixer(x: Tensor, params: dict[str, Any]) -> Tensor:
    h = torch.tanh(x @ params["in"]["w"] + params["in"]["b"])
    return h @ params["out"]["w"]


class ReversibleStack(nn.Module):
    """A stack of reversible blocks over features split in two halves."""

    def __init__(self, dim: int, hidden: int, depth: int) -> None:
        super().__init__()
        half = dim // 2

        def one() -> nn.ParameterDict:
            return nn.ParameterDict({
                "in_w": torch.randn(half, hidden) / half ** 0.5,
                "in_b": torch.zeros(hidden),
                "out_w": torch.randn(hidden, half) / hidden ** 0.5,
            })

        self.blocks = nn.ModuleList(nn.ModuleDict({"f": one(), "g": one()}) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        x1, x2 = x.chunk(2, dim=-1)
        for blk in self.blocks:
            tree = {k: {"in": {"w": blk[k]["in_w"], "b": blk[k]["in_b"]}, "out": {"w": blk[k]["out_w"]}}
                    for k in ("f", "g")}
            leaves, spec = pytree.tree_flatten(tree)
            x1, x2 = ReversibleCoupling.apply(x1, x2, _mixer, _mixer, spec, *leaves)
        return torch.cat([x1, x2], dim=-1)


class TPLinear(nn.Module):
    def __init__(self, d_in: int, d_out: int, world_size: int = 1, bias: bool = True) -> None:
        super().__init__()
        sizes: Sequence[int] = [d_out // world_size] * world_size
        self.shards = nn.ParameterList(torch.randn(s, d_in) / d_in ** 0.5 for s in sizes)
        self.bias = nn.Parameter(torch.zeros(d_out)) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return ColumnShardedLinear.apply(x, self.bias, *self.shards)


class ResidualDropout(nn.Module):
    def __init__(self, dim: int, p: float = 0.1, init_scale: float = 1e-1) -> None:
        super().__init__()
        self.p = p
        self.bias = nn.Parameter(torch.zeros(dim))
        self.gamma = nn.Parameter(torch.full((dim,), init_scale))

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        if self.training and self.p > 0:
            keep = torch.rand_like(x) >= self.p
            return BiasDropoutScaleAdd.apply(x, self.bias, residual, self.gamma, keep, self.p)
        keep = torch.ones_like(x, dtype=torch.bool)
        return BiasDropoutScaleAdd.apply(x, self.bias, residual, self.gamma, keep, 0.0)


class LeanSoftplus(nn.Module):
    def __init__(self, beta: float = 1.0) -> None:
        super().__init__()
        self.beta = beta

    def forward(self, x: Tensor) -> Tensor:
        return SoftplusFromOutput.apply(x, self.beta)
