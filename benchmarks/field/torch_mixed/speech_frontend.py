import torch
from torch import nn

NEG_INF = float("-inf")


def _ola(frames, hop):
    """frames (B, F, W) -> (B, (F - 1) * hop + W)"""
    b, f, w = frames.shape
    out = frames.new_zeros(b, (f - 1) * hop + w)
    for i in range(f):
        out[:, i * hop:i * hop + w] += frames[:, i]
    return out


class OverlapAdd(torch.autograd.Function):
    r"""Least-squares overlap-add synthesis with a (learnable) window.

    .. math:: y[n] = \frac{\sum_f w[n - fH]\, x_f[n - fH]}{\sum_f w^2[n - fH]}

    Parameters
    ----------
    frames : Tensor, shape (batch, n_frames, win_length)
    window : Tensor, shape (win_length,)
        Positive taper (Hamming and the like).
    hop : int
        ``1 <= hop <= win_length``.

    Returns
    -------
    Tensor, shape (batch, (n_frames - 1) * hop + win_length)
    """

    @staticmethod
    def forward(frames, window, hop):
        if not 1 <= hop <= window.numel():
            raise ValueError("hop must lie between 1 and the window length")
        n_frames = frames.shape[1]
        num = _ola(frames * window, hop)
        den = _ola((window ** 2).expand(1, n_frames, -1), hop)
        return num / den

    @staticmethod
    def setup_context(ctx, inputs, output):
        frames, window, hop = inputs
        ctx.save_for_backward(frames, window, output)
        ctx.hop = hop

    @staticmethod
    def backward(ctx, g):
        frames, window, y = ctx.saved_tensors
        hop, win = ctx.hop, window.numel()
        den = _ola((window ** 2).expand(1, frames.shape[1], -1), hop)
        g_num = (g / den).unfold(1, win, hop)          # (B, F, W)
        g_den = (g * y / den).unfold(1, win, hop)
        g_window = (g_num * frames).sum((0, 1)) - 2 * window * g_den.sum((0, 1))
        return g_num * window, g_window, None


class LearnedSynthesis(nn.Module):
    def __init__(self, win_length=16, hop=4):
        super().__init__()
        self.window = nn.Parameter(torch.hamming_window(win_length))
        self.hop = hop

    def forward(self, frames):
        return OverlapAdd.apply(frames, self.window, self.hop)


class OnePoleSmoother(torch.autograd.Function):
    """First order IIR smoother of PCEN, ``m[t] = (1 - s) m[t-1] + s x[t]``.

    Parameters
    ----------
    x : Tensor, shape (batch, time, channel)
        Filterbank energies.
    s : Tensor, shape (channel,)
        Smoothing coefficients in (0, 1).
    m_init : Tensor, shape (batch, channel)
        State carried over from the previous chunk of the stream.

    Returns
    -------
    Tensor, shape (batch, time, channel)
    """

    @staticmethod
    def forward(x, s, m_init):
        m, out = m_init, []
        for t in range(x.shape[1]):
            m = (1 - s) * m + s * x[:, t]
            out.append(m)
        return torch.stack(out, 1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, s, m_init = inputs
        ctx.save_for_backward(x, s, m_init, output)

    @staticmethod
    def backward(ctx, g):
        x, s, m_init, m = ctx.saved_tensors
        prev = torch.cat([m_init[:, None], m[:, :-1]], 1)
        adj = torch.zeros_like(g)
        acc = torch.zeros_like(m_init)
        for t in range(g.shape[1] - 1, -1, -1):
            acc = g[:, t] + (1 - s) * acc
            adj[:, t] = acc
        g_s = (adj * (x - prev)).sum((0, 1))
        return adj * s, g_s, adj[:, 0]


class PCEN(nn.Module):
    def __init__(self, n_mels, s=0.04, alpha=0.96, delta=2.0, r=0.5):
        super().__init__()
        self.s = nn.Parameter(torch.full((n_mels,), s))
        self.alpha, self.delta, self.r = alpha, delta, r

    def forward(self, energy, state=None):
        if state is None:
            state = torch.zeros_like(energy[:, 0])
        m = OnePoleSmoother.apply(energy, self.s, state)
        y = (energy / (m + 1e-6) ** self.alpha + self.delta) ** self.r - self.delta ** self.r
        return y, m[:, -1]


def _alpha_lattice(lp):
    """Forward variables of the left-to-right lattice; lp is (T, S)."""
    t_max, s_max = lp.shape
    alpha = lp.new_full((t_max, s_max), NEG_INF)
    alpha[0, 0] = lp[0, 0]
    for t in range(1, t_max):
        step = torch.cat([alpha.new_full((1,), NEG_INF), alpha[t - 1, :-1]])
        alpha[t] = torch.logaddexp(alpha[t - 1], step) + lp[t]
    return alpha


def _beta_lattice(lp):
    t_max, s_max = lp.shape
    beta = lp.new_full((t_max, s_max), NEG_INF)
    beta[-1, -1] = 0.0
    for t in range(t_max - 2, -1, -1):
        nxt = beta[t + 1] + lp[t + 1]
        step = torch.cat([nxt[1:], nxt.new_full((1,), NEG_INF)])
        beta[t] = torch.logaddexp(nxt, step)
    return beta


class ForwardSum(torch.autograd.Function):
    """Negative log-likelihood summed over all monotonic text/mel alignments.

    Parameters
    ----------
    log_attn : Tensor, shape (batch, n_mel, n_text)
        Log emission scores (need not be normalised).
    text_lens, mel_lens : LongTensor, shape (batch,)
        Valid sizes, ``1 <= text_lens <= mel_lens``. Items with more text than
        frames have no path and contribute zero.

    Returns
    -------
    Tensor, shape (batch,)
    """

    @staticmethod
    def forward(log_attn, text_lens, mel_lens):
        losses = []
        for b in range(log_attn.shape[0]):
            t, s = int(mel_lens[b]), int(text_lens[b])
            if s > t:
                losses.append(log_attn.new_zeros(()))
                continue
            losses.append(-_alpha_lattice(log_attn[b, :t, :s])[-1, -1])
        return torch.stack(losses)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx, g):
        log_attn, text_lens, mel_lens, nll = ctx.saved_tensors
        grad = torch.zeros_like(log_attn)
        for b in range(log_attn.shape[0]):
            t, s = int(mel_lens[b]), int(text_lens[b])
            if s > t:
                continue
            lp = log_attn[b, :t, :s]
            post = torch.exp(_alpha_lattice(lp) + _beta_lattice(lp) + nll[b])
            grad[b, :t, :s] = -g[b] * post
        return grad, None, None


def alignment_loss(log_attn, text_lens, mel_lens):
    return (ForwardSum.apply(log_attn, text_lens, mel_lens) / mel_lens).mean()


class PowerSpectrum(torch.autograd.Function):
    """One-sided power spectrum of tapered frames.

    Parameters
    ----------
    frames : Tensor, shape (..., n)
    taper : Tensor, shape (n,)

    Returns
    -------
    Tensor, shape (..., n // 2 + 1)
    """

    @staticmethod
    def forward(frames, taper):
        spec = torch.fft.rfft(frames * taper)
        return spec.real ** 2 + spec.imag ** 2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        frames, taper = ctx.saved_tensors
        n = frames.shape[-1]
        adj = 2 * g * torch.fft.rfft(frames * taper)
        # irfft counts every inner bin twice
        adj[..., 1:-1] *= 0.5
        g_tapered = torch.fft.irfft(adj, n=n) * n
        lead = tuple(range(frames.dim() - 1))
        g_taper = g_tapered * frames
        return g_tapered * taper, g_taper.sum(lead) if lead else g_taper


def log_spectrogram(wave, taper, hop, floor=1e-6):
    """(B, T) -> (B, frames, bins)"""
    frames = wave.unfold(-1, taper.numel(), hop)
    return torch.log(PowerSpectrum.apply(frames, taper) + floor)
