import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable


class GatedLinearAttentionFunction(torch.autograd.Function):
    """Linear attention whose state decays by a gate per key channel.

    Shapes
    ------
    q, k, log_decay : (batch, heads, time, d_k)
    v               : (batch, heads, time, d_v)
    initial_state   : (batch, heads, d_k, d_v) or None (zeros)

    ``S_t = exp(log_decay_t) * S_{t-1} + k_t v_t^T`` and ``o_t = scale * S_t^T q_t``.
    Gives the outputs (batch, heads, time, d_v) and the state after the last step.
    """

    @staticmethod
    def forward(ctx, q, k, v, log_decay, initial_state=None, scale=None):
        scale = q.shape[-1] ** -0.5 if scale is None else scale
        state = q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1]) if initial_state is None else initial_state.clone()
        outs = []
        for t in range(q.shape[2]):
            state = log_decay[:, :, t].exp().unsqueeze(-1) * state + k[:, :, t, :, None] * v[:, :, t, None, :]
            outs.append(scale * torch.einsum("bhkv,bhk->bhv", state, q[:, :, t]))
        ctx.scale = scale
        ctx.has_state = initial_state is not None
        ctx.save_for_backward(q, k, v, log_decay, *([initial_state] if ctx.has_state else []))
        return torch.stack(outs, dim=2), state

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out, grad_state):
        q, k, v, log_decay, *rest = ctx.saved_tensors
        state = rest[0] if ctx.has_state else q.new_zeros(*q.shape[:2], k.shape[-1], v.shape[-1])
        before = []
        for t in range(q.shape[2]):
            before.append(state)
            state = log_decay[:, :, t].exp().unsqueeze(-1) * state + k[:, :, t, :, None] * v[:, :, t, None, :]

        gq, gk, gv, gd = (torch.zeros_like(a) for a in (q, k, v, log_decay))
        carry = grad_state
        for t in reversed(range(q.shape[2])):
            go = grad_out[:, :, t]
            gq[:, :, t] = ctx.scale * torch.einsum("bhkv,bhv->bhk", state, go)
            carry = carry + ctx.scale * q[:, :, t, :, None] * go[:, :, None, :]
            gk[:, :, t] = torch.einsum("bhkv,bhv->bhk", carry, v[:, :, t])
            gv[:, :, t] = torch.einsum("bhkv,bhk->bhv", carry, k[:, :, t])
            carry = log_decay[:, :, t].exp().unsqueeze(-1) * carry
            gd[:, :, t] = (carry * before[t]).sum(-1)
            state = before[t]
        return gq, gk, gv, gd, carry if ctx.has_state and ctx.needs_input_grad[4] else None, None


class SampledDenseMatMulFunction(torch.autograd.Function):
    """Products of chosen pairs of query and key blocks.

    :param dense_query: ``(batch, n_query, dim)``
    :param dense_key: ``(batch, n_key, dim)``
    :param indices: ``(batch, picks)`` long, ``query_block * n_key_blocks + key_block``
    :param block_size: rows of a block; divides both lengths
    :returns: ``(batch, picks, block_size, block_size)``
    """

    @staticmethod
    def _split(dense, block_size):
        return dense.reshape(dense.shape[0], -1, block_size, dense.shape[-1])

    @staticmethod
    def forward(ctx, dense_query, dense_key, indices, block_size):
        ctx.save_for_backward(dense_query, dense_key, indices)
        ctx.block_size = block_size
        qb = SampledDenseMatMulFunction._split(dense_query, block_size)
        kb = SampledDenseMatMulFunction._split(dense_key, block_size)
        batch = torch.arange(indices.shape[0], device=indices.device)[:, None]
        rows = torch.div(indices, kb.shape[1], rounding_mode="floor")
        cols = indices % kb.shape[1]
        return qb[batch, rows] @ kb[batch, cols].transpose(-1, -2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        dense_query, dense_key, indices = ctx.saved_tensors
        qb = SampledDenseMatMulFunction._split(dense_query, ctx.block_size)
        kb = SampledDenseMatMulFunction._split(dense_key, ctx.block_size)
        batch = torch.arange(indices.shape[0], device=indices.device)[:, None].expand_as(indices)
        rows = torch.div(indices, kb.shape[1], rounding_mode="floor")
        cols = indices % kb.shape[1]

        grad_qb = torch.zeros_like(qb)
        grad_qb.index_put_((batch, rows), grad @ kb[batch, cols], accumulate=True)
        grad_kb = torch.zeros_like(kb)
        grad_kb[batch, cols] = grad.transpose(-1, -2) @ qb[batch, rows]
        return grad_qb.reshape(dense_query.shape), grad_kb.reshape(dense_key.shape), None, None


def _shift(x: Tensor, steps: int) -> Tensor:
    if steps == 0:
        return x
    if steps >= x.shape[-1]:
        return torch.zeros_like(x)
    return nn.functional.pad(x, (steps, 0))[..., : x.shape[-1]]


def _unshift(x: Tensor, steps: int) -> Tensor:
    if steps == 0:
        return x
    if steps >= x.shape[-1]:
        return torch.zeros_like(x)
    return nn.functional.pad(x, (0, steps))[..., steps:]


class DepthwiseCausalConv1dFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, bias: "Tensor | None" = None, dilation: int = 1,
                activation: "str | None" = None) -> Tensor:
        if activation not in (None, "silu"):
            raise NotImplementedError("activation must be None or silu")
        width = weight.shape[1]
        pre = sum(weight[:, i, None] * _shift(x, (width - 1 - i) * dilation) for i in range(width))
        if bias is not None:
            pre = pre + bias[:, None]
        ctx.save_for_backward(x, weight, pre)
        ctx.dilation, ctx.activation, ctx.has_bias = dilation, activation, bias is not None
        return nn.functional.silu(pre) if activation == "silu" else pre.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, weight, pre = ctx.saved_tensors
        if ctx.activation == "silu":
            s = torch.sigmoid(pre)
            grad = grad * s * (1 + pre * (1 - s))
        width = weight.shape[1]
        grad_x = grad_w = grad_b = None
        if ctx.needs_input_grad[0]:
            grad_x = sum(
                weight[:, i, None] * _unshift(grad, (width - 1 - i) * ctx.dilation) for i in range(width)
            )
        if ctx.needs_input_grad[1]:
            grad_w = torch.stack([(grad * _shift(x, width - 1 - i)).sum((0, 2)) for i in range(width)], dim=1)
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_b = grad.sum((0, 2))
        return grad_x, grad_w, grad_b, None, None


class ShortConv(nn.Module):
    """Depthwise causal convolution over (batch, channels, time)."""

    def __init__(self, channels, width=4, dilation=1, bias=True, activation="silu"):
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels, width), 1.0 / width))
        self.bias = nn.Parameter(torch.zeros(channels)) if bias else None
        self.dilation, self.activation = dilation, activation

    def forward(self, x):
        return DepthwiseCausalConv1dFunction.apply(x, self.weight, self.bias, self.dilation, self.activation)


class ReversibleCouplingFunction(torch.autograd.Function):
    """Additive coupling ``y1 = x1 + f(x2)``, ``y2 = x2 + g(y1)`` that rebuilds its inputs when it goes back.

    ``f`` and ``g`` are deterministic callables of ``(x, *their_params)``, shape preserving; of ``params`` the
    first ``num_f`` go to ``f`` and the others to ``g``.
    """

    @staticmethod
    def forward(ctx, f, g, num_f, x1, x2, *params):
        y1 = x1 + f(x2, *params[:num_f])
        y2 = x2 + g(y1, *params[num_f:])
        ctx.f, ctx.g, ctx.num_f = f, g, num_f
        ctx.save_for_backward(y1, y2, *params)
        return y1, y2

    @staticmethod
    def _pull(fn, at, params, wanted, cotangent):
        at = at.detach().requires_grad_()
        params = [p.detach().requires_grad_(w) for p, w in zip(params, wanted)]
        inputs = [at, *(p for p, w in zip(params, wanted) if w)]
        with torch.enable_grad():
            value = fn(at, *params)
        grads = torch.autograd.grad(value, inputs, cotangent, allow_unused=True)
        rest = iter(grads[1:])
        at_grad = torch.zeros_like(at) if grads[0] is None else grads[0]
        return value.detach(), at_grad, [next(rest) if w else None for w in wanted]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_y1, grad_y2):
        y1, y2, *params = ctx.saved_tensors
        n, wanted = ctx.num_f, ctx.needs_input_grad[5:]
        pull = ReversibleCouplingFunction._pull
        g_of_y1, through_g, grads_g = pull(ctx.g, y1, params[n:], wanted[n:], grad_y2)
        total_y1 = grad_y1 + through_g
        _, through_f, grads_f = pull(ctx.f, y2 - g_of_y1, params[:n], wanted[:n], total_y1)
        return (None, None, None, total_y1, grad_y2 + through_f, *grads_f, *grads_g)


class ReversibleBlock(nn.Module):
    """Splits the last dimension in two halves and couples them through ``f`` and ``g``."""

    def __init__(self, f: nn.Module, g: nn.Module):
        super().__init__()
        self.f, self.g = f, g

    @staticmethod
    def _pure(module):
        names, params = zip(*module.named_parameters())

        def call(x, *values):
            return torch.func.functional_call(module, dict(zip(names, values)), (x,))

        return call, params

    def forward(self, x: Tensor) -> Tensor:
        (f, pf), (g, pg) = self._pure(self.f), self._pure(self.g)
        x1, x2 = x.chunk(2, dim=-1)
        return torch.cat(ReversibleCouplingFunction.apply(f, g, len(pf), x1, x2, *pf, *pg), dim=-1)
