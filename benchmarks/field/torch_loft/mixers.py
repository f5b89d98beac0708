"""Token mixers: gated linear recurrence, scalar state space duality, xPos."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class RGLRUFunction(torch.autograd.Function):
    """Real-gated linear recurrent unit.

        log a_t = -c * softplus(lam) * r_t
        h_t     = a_t * h_{t-1} + sqrt(1 - a_t ** 2) * (i_t * x_t)

    x, r, i: (B, T, D), gates within (0, 1); lam: (D,); h0: (B, D);
    reset: (B, T) bool, where a new document starts: there the past is dropped
    and the input enters unscaled. Returns the states (B, T, D) and the last.
    """

    @staticmethod
    def forward(ctx, x, r, i, lam, h0, reset, c=8.0):
        rate = -c * F.softplus(lam)
        log_a = rate * r
        cut = reset[..., None]
        a = log_a.exp().masked_fill(cut, 0.0)
        m = (-torch.expm1(2 * log_a)).sqrt().masked_fill(cut, 1.0)
        u = m * i * x
        h, states = h0, []
        for t in range(x.shape[1]):
            h = a[:, t] * h + u[:, t]
            states.append(h)
        states = torch.stack(states, 1)
        ctx.save_for_backward(x, r, i, lam, h0, a, m, states, cut)
        ctx.c = c
        return states, h.clone()

    @staticmethod
    def backward(ctx, g_states, g_last):
        x, r, i, lam, h0, a, m, states, cut = ctx.saved_tensors
        prev = torch.cat([h0[:, None], states[:, :-1]], 1)
        carry = g_last
        du = torch.empty_like(states)
        for t in range(states.shape[1] - 1, -1, -1):
            carry = carry + g_states[:, t]
            du[:, t] = carry
            carry = carry * a[:, t]
        dm = du * i * x
        d_log_a = (du * prev * a - dm * a.square() / m).masked_fill(cut, 0.0)
        rate = -ctx.c * F.softplus(lam)
        d_lam = (d_log_a * r).sum((0, 1)) * -ctx.c * lam.sigmoid()
        return du * m * i, d_log_a * rate, du * m * x, d_lam, carry, None, None


def _rotate_pairs(x, cos, sin):
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], -1).flatten(-2)


def xpos_tables(length, dim, *, base=10000.0, scale_base=512.0, offset=0, downscale=False,
                dtype=torch.float32):
    """cos, sin and decay of xPos, (length, 1, dim / 2) each."""
    pos = torch.arange(offset, offset + length, dtype=dtype)
    freq = base ** (-torch.arange(0, dim, 2, dtype=dtype) / dim)
    angle = pos[:, None, None] * freq
    zeta = (torch.arange(0, dim, 2, dtype=dtype) + 0.4 * dim) / (1.4 * dim)
    decay = zeta ** (pos[:, None, None] / scale_base)
    return angle.cos(), angle.sin(), (1 / decay if downscale else decay)


class XPosFunction(torch.autograd.Function):
    """Rotary embedding with exponential decay, on (B, T, H, D).

    ``cos``, ``sin`` and ``decay`` are tables as from :func:`xpos_tables`;
    ``decay`` is any positive table (fixed) that broadcasts to (T, H, D / 2).
    """

    @staticmethod
    def forward(x, cos, sin, decay):
        return _rotate_pairs(x, cos * decay, sin * decay)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, cos, sin, decay = inputs
        ctx.save_for_backward(cos, sin, decay)

    @staticmethod
    def backward(ctx, grad):
        cos, sin, decay = ctx.saved_tensors
        return _rotate_pairs(grad, cos / decay, -sin / decay), None, None, None


class XPos(nn.Module):
    def __init__(self, dim, *, base=10000.0, scale_base=512.0):
        super().__init__()
        self.dim, self.kw = dim, dict(base=base, scale_base=scale_base)

    def forward(self, q, k, offset=0):
        up = xpos_tables(q.shape[1], self.dim, offset=offset, dtype=q.dtype, **self.kw)
        down = xpos_tables(k.shape[1], self.dim, offset=offset, dtype=k.dtype, downscale=True, **self.kw)
        return XPosFunction.apply(q, *up), XPosFunction.apply(k, *down)


def _ssd_states(x, dt, a_log, b, state):
    decay = torch.exp(-a_log.exp() * dt)
    out = [state]
    for t in range(x.shape[1]):
        inp = (dt[:, t, :, None] * x[:, t])[..., None] * b[:, t, :, None]
        out.append(decay[:, t, :, None, None] * out[-1] + inp)
    return decay, torch.stack(out, 1)


class SSDScanFunction(torch.autograd.Function):
    """Selective state space with one decay for each head.

    x (B, T, H, P), dt (B, T, H) > 0, a_log (H,), b and c (B, T, G, N) with H a
    multiple of G, d (H,) or None, state (B, H, P, N). Returns y (B, T, H, P)
    and the state after the last step. States are recomputed on the way back.
    """

    @staticmethod
    def forward(x, dt, a_log, b, c, d, state):
        rep = x.shape[2] // b.shape[2]
        bh, ch = b.repeat_interleave(rep, 2), c.repeat_interleave(rep, 2)
        _, s = _ssd_states(x, dt, a_log, bh, state)
        y = torch.einsum("bthpn,bthn->bthp", s[:, 1:], ch)
        if d is not None:
            y = y + d[:, None] * x
        return y, s[:, -1].clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, dt, a_log, b, c, d, state = inputs
        ctx.has_d = d is not None
        ctx.save_for_backward(x, dt, a_log, b, c, state, *([d] if ctx.has_d else []))

    @staticmethod
    def backward(ctx, gy, g_state):
        x, dt, a_log, b, c, state, *rest = ctx.saved_tensors
        groups = b.shape[2]
        rep = x.shape[2] // groups
        bh, ch = b.repeat_interleave(rep, 2), c.repeat_interleave(rep, 2)
        decay, s = _ssd_states(x, dt, a_log, bh, state)

        gc = torch.einsum("bthp,bthpn->bthn", gy, s[:, 1:])
        gx, gb, gdt = torch.zeros_like(x), torch.zeros_like(bh), torch.zeros_like(dt)
        g_log = torch.zeros_like(dt)
        carry = g_state
        for t in range(x.shape[1] - 1, -1, -1):
            carry = carry + gy[:, t, ..., None] * ch[:, t, :, None]
            into = torch.einsum("bhpn,bhn->bhp", carry, bh[:, t])
            gx[:, t] = dt[:, t, :, None] * into
            gdt[:, t] = (into * x[:, t]).sum(-1)
            gb[:, t] = torch.einsum("bhpn,bhp->bhn", carry, dt[:, t, :, None] * x[:, t])
            g_log[:, t] = (carry * s[:, t]).sum((-1, -2)) * decay[:, t]
            carry = carry * decay[:, t, :, None, None]
        rate = a_log.exp()
        gdt = gdt - g_log * rate
        g_a_log = -(g_log * dt).sum((0, 1)) * rate
        gd = None
        if ctx.has_d:
            gx = gx + rest[0][:, None] * gy
            gd = (gy * x).sum((0, 1, 3))
        fold = lambda g: g.unflatten(2, (groups, rep)).sum(3)
        return gx, gdt, g_a_log, fold(gb), fold(gc), gd, carry


class GriffinBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.gates = nn.Linear(dim, 2 * dim)
        self.lam = nn.Parameter(torch.linspace(-4.0, -1.0, dim))

    def forward(self, x, state=None, reset=None):
        r, i = self.gates(x).sigmoid().chunk(2, -1)
        if state is None:
            state = x.new_zeros(x.shape[0], x.shape[-1])
        if reset is None:
            reset = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return RGLRUFunction.apply(x, r, i, self.lam, state, reset, 8.0)


class Mamba2Heads(nn.Module):
    def __init__(self, dim, heads, state=16, groups=1):
        super().__init__()
        self.shape = (heads, dim // heads, groups, state)
        self.proj = nn.Linear(dim, 2 * groups * state + heads)
        self.a_log = nn.Parameter(torch.zeros(heads))
        self.d = nn.Parameter(torch.ones(heads))

    def forward(self, x):
        h, p, g, n = self.shape
        b, c, dt = self.proj(x).split([g * n, g * n, h], -1)
        state = x.new_zeros(x.shape[0], h, p, n)
        y, last = SSDScanFunction.apply(
            x.unflatten(-1, (h, p)), F.softplus(dt), self.a_log,
            b.unflatten(-1, (g, n)), c.unflatten(-1, (g, n)), self.d, state)
        return y.flatten(-2), last
