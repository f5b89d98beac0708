"""Recurrences over time with adjoint backward passes."""

from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class WKVFunction(Function):
    """Weighted key-value average of RWKV, dense reference kernel.

    Each channel averages the values of the past with weights ``exp(k_s - (t - 1 - s) * exp(time_decay))`` and the
    value of the present with weight ``exp(k_t + time_first)``.

    :param time_decay: ``(channels,)``
    :param time_first: ``(channels,)``
    :param key: ``(batch, length, channels)``
    :param value: ``(batch, length, channels)``
    :returns: ``(batch, length, channels)``
    """

    @staticmethod
    def _weights(time_decay, time_first, key):
        t = torch.arange(key.shape[1], device=key.device)
        lag = t[:, None] - 1 - t[None, :]
        decay = -torch.exp(time_decay) * lag.clamp_min(0)[..., None].to(key.dtype)
        exponent = torch.where((lag < 0)[..., None], time_first, decay) + key[:, None]
        exponent = exponent.masked_fill((lag < -1)[None, ..., None], float("-inf"))
        return torch.softmax(exponent, dim=2), lag

    @staticmethod
    def forward(ctx, time_decay, time_first, key, value):
        p, _ = WKVFunction._weights(time_decay, time_first, key)
        out = torch.einsum("btsc,bsc->btc", p, value)
        ctx.save_for_backward(time_decay, time_first, key, value, out)
        return out

    @staticmethod
    def backward(ctx, grad):
        time_decay, time_first, key, value, out = ctx.saved_tensors
        p, lag = WKVFunction._weights(time_decay, time_first, key)
        g_exponent = p * grad[:, :, None] * (value[:, None] - out[:, :, None])
        g_value = torch.einsum("btsc,btc->bsc", p, grad)
        g_key = g_exponent.sum(1)
        g_first = torch.diagonal(g_exponent, dim1=1, dim2=2).sum((0, 2))
        weight = lag.clamp_min(0).to(key.dtype)
        g_decay = -torch.exp(time_decay) * torch.einsum("btsc,ts->c", g_exponent, weight)
        return g_decay, g_first, g_key, g_value


class SelectiveScanFunction(Function):
    """State space scan ``h_t = exp(delta_t A) h_{t-1} + delta_t B_t u_t``, ``y_t = C_t h_t + D u_t``.

    Args:
        u: input, (batch, dim, length).
        delta: step sizes, shaped as u.
        A: (dim, state), negative.
        B: (batch, state, length).
        C: (batch, state, length).
        D: skip weights, (dim,), or None.
        h0: state before the first step, (batch, dim, state), zeros when None.
        delta_softplus: pass delta through softplus first.

    Returns:
        y of the shape of u and the last state, (batch, dim, state).
    """

    @staticmethod
    def forward(ctx, u, delta, A, B, C, D=None, h0=None, delta_softplus=False):
        step = F.softplus(delta) if delta_softplus else delta
        decay = torch.exp(step[:, :, None] * A[None, :, :, None])
        drive = (step * u)[:, :, None] * B[:, None]
        h = u.new_zeros(u.shape[0], *A.shape) if h0 is None else h0
        states = [h]
        for t in range(u.shape[-1]):
            h = decay[..., t] * h + drive[..., t]
            states.append(h)
        states = torch.stack(states, dim=-1)
        y = torch.einsum("bdnl,bnl->bdl", states[..., 1:], C)
        if D is not None:
            y = y + D[:, None] * u
        ctx.save_for_backward(u, delta, A, B, C, D, states)
        ctx.delta_softplus = delta_softplus
        return y, states[..., -1].clone()

    @staticmethod
    def backward(ctx, dy, dlast):
        u, delta, A, B, C, D, states = ctx.saved_tensors
        step = F.softplus(delta) if ctx.delta_softplus else delta
        decay = torch.exp(step[:, :, None] * A[None, :, :, None])
        length = u.shape[-1]
        carry = dlast
        adjoints = [None] * length
        for t in reversed(range(length)):
            dh = carry + dy[:, :, None, t] * C[:, None, :, t]
            adjoints[t] = dh
            carry = decay[..., t] * dh
        lam = torch.stack(adjoints, dim=-1)
        g_decay = lam * states[..., :-1] * decay
        g_drive = torch.einsum("bdnl,bnl->bdl", lam, B)
        d_step = torch.einsum("bdnl,dn->bdl", g_decay, A) + g_drive * u
        du = g_drive * step
        dA = torch.einsum("bdnl,bdl->dn", g_decay, step)
        dB = torch.einsum("bdnl,bdl->bnl", lam, step * u)
        dC = torch.einsum("bdnl,bdl->bnl", states[..., 1:], dy)
        dD = None
        if D is not None:
            du = du + D[:, None] * dy
            dD = (dy * u).sum((0, 2))
        d_delta = d_step * torch.sigmoid(delta) if ctx.delta_softplus else d_step
        dh0 = dh if ctx.needs_input_grad[6] else None
        return du, d_delta, dA, dB, dC, dD, dh0, None


def selective_scan(u, delta, A, B, C, D=None, *, h0=None, delta_softplus=False, return_last_state=False):
    y, last = SelectiveScanFunction.apply(u, delta, A, B, C, D, h0, delta_softplus)
    return (y, last) if return_last_state else y


class GRUScanFunction(Function):
    """Gated recurrent unit over a batch of trajectories.

    Parameters
    ----------
    x : Tensor, shape (batch, time, 3 * hidden)
        Projected inputs of the reset, update and candidate gates.
    initial : Tensor, shape (batch, hidden)
    is_init : BoolTensor, shape (batch, time)
        True at the first step of an episode: the hidden state is set to zero before this step.
    w_hh : Tensor, shape (3 * hidden, hidden)
    b_hh : Tensor, shape (3 * hidden,)

    Returns
    -------
    Tensor, shape (batch, time, hidden)
    """

    @staticmethod
    def forward(ctx, x, initial, is_init, w_hh, b_hh):
        h = initial
        previous, gates, hidden = [], [], []
        for t in range(x.shape[1]):
            h_prev = h.masked_fill(is_init[:, t, None], 0.0)
            xr, xz, xn = x[:, t].chunk(3, -1)
            hr, hz, hn = F.linear(h_prev, w_hh, b_hh).chunk(3, -1)
            r = torch.sigmoid(xr + hr)
            z = torch.sigmoid(xz + hz)
            n = torch.tanh(xn + r * hn)
            h = n + z * (h_prev - n)
            previous.append(h_prev)
            gates.append(torch.cat((r, z, n, hn), -1))
            hidden.append(h)
        ctx.save_for_backward(torch.stack(previous, 1), torch.stack(gates, 1), is_init, w_hh)
        return torch.stack(hidden, 1)

    @staticmethod
    def backward(ctx, grad):
        previous, gates, is_init, w_hh = ctx.saved_tensors
        dh = torch.zeros_like(previous[:, 0])
        dw = torch.zeros_like(w_hh)
        db = w_hh.new_zeros(w_hh.shape[0])
        dx = []
        for t in reversed(range(grad.shape[1])):
            r, z, n, hn = gates[:, t].chunk(4, -1)
            h_prev = previous[:, t]
            dh = dh + grad[:, t]
            dz = dh * (h_prev - n) * z * (1 - z)
            dn = dh * (1 - z) * (1 - n * n)
            dr = dn * hn * r * (1 - r)
            d_hidden = torch.cat((dr, dz, dn * r), -1)
            dx.append(torch.cat((dr, dz, dn), -1))
            dw += d_hidden.t() @ h_prev
            db += d_hidden.sum(0)
            dh = dh * z + d_hidden @ w_hh
        return torch.stack(dx[::-1], 1), dh, None, dw, db


class LIState(NamedTuple):
    v: torch.Tensor
    i: torch.Tensor


class LIParameters(NamedTuple):
    """Constants of the leaky integrator."""

    tau_syn_inv: float = 200.0
    tau_mem_inv: float = 100.0
    v_leak: float = 0.0


class LIStepFunction(Function):
    """One Euler step of a leaky integrator with an exponential synapse; returns the new voltage and current."""

    @staticmethod
    def forward(ctx, input, v, i, p=LIParameters(), dt=0.001):
        i_jump = i + input
        v_new = v + dt * p.tau_mem_inv * ((p.v_leak - v) + i_jump)
        i_new = i_jump - dt * p.tau_syn_inv * i_jump
        ctx.p = p
        ctx.dt = dt
        return v_new, i_new

    @staticmethod
    def backward(ctx, grad_v, grad_i):
        rate = ctx.dt * ctx.p.tau_mem_inv
        d_current = rate * grad_v
        return d_current, (1 - rate) * grad_v, d_current, None, None


class LICell(nn.Module):
    def __init__(self, p=LIParameters(), dt=0.001):
        super().__init__()
        self.p = p
        self.dt = dt

    def forward(self, input, state=None):
        if state is None:
            state = LIState(torch.zeros_like(input), torch.zeros_like(input))
        v, i = LIStepFunction.apply(input, state.v, state.i, self.p, self.dt)
        return v, LIState(v, i)


class LeakyFilter(nn.Module):
    """Exponential filter over the leading (time) dimension with a decay per neuron.

    :param size: number of neurons, or 1 for a common decay
    :param beta: start value of the decay
    """

    class Scan(Function):
        """``y[t] = beta * y[t - 1] + x[t]`` for ``x`` of shape (time, batch, neurons), ``beta`` of shape (neurons,)
        or (1,)."""

        @staticmethod
        def forward(ctx, x, beta):
            mem = torch.zeros_like(x[0])
            trace = []
            for frame in x:
                mem = beta * mem + frame
                trace.append(mem)
            trace = torch.stack(trace)
            ctx.save_for_backward(beta, trace)
            return trace

        @staticmethod
        def backward(ctx, grad):
            beta, trace = ctx.saved_tensors
            lam = torch.zeros_like(grad[0])
            adjoint = torch.empty_like(grad)
            for t in range(grad.shape[0] - 1, -1, -1):
                lam = grad[t] + beta * lam
                adjoint[t] = lam
            grad_beta = None
            if ctx.needs_input_grad[1]:
                grad_beta = (adjoint[1:] * trace[:-1]).sum((0, 1)).sum_to_size(beta.shape)
            return adjoint, grad_beta

    def __init__(self, size=1, beta=0.9):
        super().__init__()
        self.beta = nn.Parameter(torch.full((size,), float(beta)))

    def forward(self, x):
        return self.Scan.apply(x, self.beta)
