"""
Pieces of the vocoder / keyword spotter.  All signals are (batch, channels, time) unless noted.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function


class SnakeFunction(Function):
    """Snake: x + sin^2(a x) / a, with one frequency per channel.

    With ``alpha_logscale`` the parameter holds log(a), as in BigVGAN v2.
    """
    no_div_by_zero = 1e-9

    @staticmethod
    def forward(ctx, x, alpha, alpha_logscale=False):
        a = torch.exp(alpha) if alpha_logscale else alpha
        a = a[None, :, None]
        ctx.save_for_backward(x, a)
        return x + torch.sin(a * x).pow(2) / (a + SnakeFunction.no_div_by_zero)

    @staticmethod
    def backward(ctx, grad):
        x, a = ctx.saved_tensors
        b = a + SnakeFunction.no_div_by_zero
        s2 = torch.sin(2 * a * x)
        grad_x = grad * (1 + s2 * a / b)
        grad_alpha = grad * (x * s2 / b - torch.sin(a * x).pow(2) / b.pow(2))
        return grad_x, grad_alpha.sum(dim=(0, 2)), None


class Snake(nn.Module):
    def __init__(self, channels, alpha=1.0, alpha_logscale=False):
        super().__init__()
        self.alpha_logscale = alpha_logscale
        init = torch.zeros(channels) if alpha_logscale else torch.ones(channels)
        self.alpha = nn.Parameter(init * alpha)

    def forward(self, x):
        return SnakeFunction.apply(x, self.alpha, self.alpha_logscale)


class FrameSignal(Function):
    """Cut a waveform into frames.  wav (B, T) -> (B, n_frames, frame_length)

    The tail that does not fill a frame is dropped.
    """

    @staticmethod
    def forward(ctx, wav, frame_length, hop_length):
        ctx.length = wav.shape[-1]
        ctx.hop = hop_length
        return wav.unfold(-1, frame_length, hop_length).contiguous()

    @staticmethod
    def backward(ctx, grad_frames):
        b, n, size = grad_frames.shape
        grad_wav = grad_frames.new_zeros(b, ctx.length)
        for i in range(n):
            start = i * ctx.hop
            grad_wav[:, start:start + size] = grad_frames[:, i]
        return grad_wav, None, None


def log_energy(wav, frame_length=400, hop_length=160):
    frames = FrameSignal.apply(wav, frame_length, hop_length)
    frames = frames * torch.hann_window(frame_length, dtype=wav.dtype, device=wav.device)
    return torch.log(frames.pow(2).sum(-1) + 1e-6)


class CausalDepthwiseConv1d(Function):

    @staticmethod
    def forward(ctx, x, weight, dilation=1):
        # x: B C T     weight: C K     y[t] = sum_k w[k] x[t - (K - 1 - k) * dilation]
        C, K = weight.shape
        xp = F.pad(x, ((K - 1) * dilation, 0))
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        return F.conv1d(xp, weight.unsqueeze(1), dilation=dilation, groups=C)

    @staticmethod
    def backward(ctx, grad_y):
        x, weight = ctx.saved_tensors
        C, K = weight.shape
        d = ctx.dilation
        grad_x = grad_w = None
        if ctx.needs_input_grad[0]:
            gp = F.pad(grad_y, (0, (K - 1) * d))
            grad_x = F.conv1d(gp, weight.flip(1).unsqueeze(1), dilation=d, groups=C)
        if ctx.needs_input_grad[1]:
            T = x.shape[-1]
            xp = F.pad(x, ((K - 1) * d, 0))
            taps = [(grad_y * xp[..., k * d:k * d + T]).sum(dim=(0, 2)) for k in range(K)]
            grad_w = torch.stack(taps, dim=1)
        return grad_x, grad_w, None


class PCENSmoother(Function):
    """First-order smoother of per-channel energy normalisation.

    m[0] = e[0],  m[t] = (1 - s) m[t - 1] + s e[t]

    Args:
        energy: (B, C, T) filterbank energies.
        s: (C,) smoothing coefficients in (0, 1).
    Returns:
        (B, C, T) smoothed energies.
    """

    @staticmethod
    def forward(ctx, energy, s):
        steps = energy.unbind(-1)
        m = [steps[0]]
        for e in steps[1:]:
            m.append((1 - s) * m[-1] + s * e)
        m = torch.stack(m, dim=-1)
        ctx.save_for_backward(energy, s, m)
        return m

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad_m):
        energy, s, m = ctx.saved_tensors
        T = energy.shape[-1]
        grad_e = torch.empty_like(energy)
        grad_s = torch.zeros_like(s)
        carry = torch.zeros_like(energy[..., 0])
        for t in range(T - 1, 0, -1):
            carry = carry + grad_m[..., t]
            grad_e[..., t] = s * carry
            grad_s += (carry * (energy[..., t] - m[..., t - 1])).sum(0)
            carry = (1 - s) * carry
        grad_e[..., 0] = carry + grad_m[..., 0]
        return grad_e, grad_s


class PCEN(nn.Module):
    def __init__(self, channels, s=0.04, alpha=0.96, delta=2.0, r=0.5, eps=1e-6):
        super().__init__()
        self.s = nn.Parameter(torch.full((channels,), s))
        self.alpha, self.delta, self.r, self.eps = alpha, delta, r, eps

    def forward(self, energy):
        m = PCENSmoother.apply(energy, self.s.clamp(1e-3, 1 - 1e-3))
        return (energy / (self.eps + m) ** self.alpha + self.delta) ** self.r - self.delta ** self.r


class LSTMPointwise(Function):
    """(i, f, g, o) pre-activations (B, 4H) and cell (B, H) -> new hidden and new cell, (B, H) each"""

    @staticmethod
    def forward(ctx, gates, cell):
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, o = torch.sigmoid(i), torch.sigmoid(f), torch.sigmoid(o)
        g = torch.tanh(g)
        new_cell = f * cell + i * g
        tanh_c = torch.tanh(new_cell)
        ctx.save_for_backward(cell, i, f, g, o, tanh_c)
        return o * tanh_c, new_cell

    @staticmethod
    def backward(ctx, grad_h, grad_cell):
        cell, i, f, g, o, tanh_c = ctx.saved_tensors
        d_o = grad_h * tanh_c
        d_new_cell = grad_h * o * (1 - tanh_c.pow(2))
        d_f = d_new_cell * cell
        d_i = d_new_cell * g
        d_g = d_new_cell * i
        d_gates = torch.cat([d_i * i * (1 - i), d_f * f * (1 - f),
                             d_g * (1 - g.pow(2)), d_o * o * (1 - o)], dim=1)
        return d_gates, d_new_cell * f


class StreamingLSTM(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_hidden = n_hidden
        self.x2g = nn.Linear(n_in, 4 * n_hidden)
        self.h2g = nn.Linear(n_hidden, 4 * n_hidden, bias=False)

    def forward(self, x, state=None):
        # x: (B, T, n_in)
        if state is None:
            state = (x.new_zeros(len(x), self.n_hidden),) * 2
        h, c = state
        out = []
        for xt in self.x2g(x).unbind(1):
            h, c = LSTMPointwise.apply(xt + self.h2g(h), c)
            out.append(h)
        return torch.stack(out, 1), (h, c)


class KeywordSpotter(nn.Module):
    def __init__(self, mels=40, hidden=64, classes=12):
        super().__init__()
        self.pcen = PCEN(mels)
        self.dw = nn.Parameter(torch.randn(mels, 3) * 0.3)
        self.snake = Snake(mels, alpha_logscale=True)
        self.rnn = StreamingLSTM(mels, hidden)
        self.head = nn.Linear(hidden, classes)

    def forward(self, mel):
        x = self.snake(CausalDepthwiseConv1d.apply(self.pcen(mel), self.dw, 2))
        out, _ = self.rnn(x.transpose(1, 2))
        return self.head(out[:, -1])


if __name__ == "__main__":
    y = KeywordSpotter()(torch.rand(2, 40, 20))
    y.sum().backward()
    print(y.shape, log_energy(torch.randn(1, 1600)).shape)
