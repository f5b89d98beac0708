import torch
import torch.nn.functional as F
from torch import nn

_PAD = {"zero": "constant", "replicate": "replicate", "reflect": "reflect", "wrap": "circular"}


def tube_spectrum(kvp: float, energies: torch.Tensor) -> torch.Tensor:
    s = (kvp / energies - 1).clamp_min(0) * (1 - torch.exp(-((energies / 30) ** 3)))
    return s / s.sum()


def bin_responses(spectrum: torch.Tensor, energies: torch.Tensor, edges) -> torch.Tensor:
    """One row for each energy bin between consecutive thresholds."""
    soft = torch.stack([torch.sigmoid((energies - e) / 2.0) for e in edges])
    soft = torch.cat([soft, torch.zeros_like(soft[:1])])
    return (soft[:-1] - soft[1:]) * spectrum


class _PolyAttenuation(torch.autograd.Function):
    generate_vmap_rule = False

    @staticmethod
    def forward(path, mu, spec):
        t = torch.exp(-(path @ mu))
        return torch.log(spec.sum(-1)) - torch.log(t @ spec.t())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        path, mu, spec = ctx.saved_tensors
        t = torch.exp(-(path @ mu))
        r = g / (t @ spec.t())
        d_expo = (r @ spec) * t
        d_path = d_expo @ mu.t()
        d_mu = path.flatten(0, -2).t() @ d_expo.flatten(0, -2)
        total = g.flatten(0, -2).sum(0) / spec.sum(-1)
        d_spec = total.unsqueeze(-1) - r.flatten(0, -2).t() @ t.flatten(0, -2)
        return d_path, d_mu, d_spec


def _four_neighbours(x, border):
    y = F.pad(x, (1, 1, 1, 1), mode=_PAD[border])
    return y[..., :-2, 1:-1] + y[..., 2:, 1:-1] + y[..., 1:-1, :-2] + y[..., 1:-1, 2:]


class ChargeSharing(torch.autograd.Function):
    # every pixel keeps 1 - 4s of its charge and sends s to each of its neighbours
    @staticmethod
    def forward(ctx, counts, share, border):
        s = share.view(-1, 1, 1)
        near = _four_neighbours(counts, border)
        ctx.border = border
        ctx.save_for_backward(counts, share)
        return counts + s * (near - 4 * counts)

    @staticmethod
    def backward(ctx, g):
        counts, share = ctx.saved_tensors
        s = share.view(-1, 1, 1)
        g_counts = g_share = None
        if ctx.needs_input_grad[0]:
            g_counts = g + s * (_four_neighbours(g, ctx.border) - 4 * g)
        if ctx.needs_input_grad[1]:
            lap = _four_neighbours(counts, ctx.border) - 4 * counts
            g_share = (g * lap).sum((0, 2, 3))
            if share.numel() == 1:
                g_share = g_share.sum().view(share.shape)
        return g_counts, g_share, None


class ReadingNLL(torch.autograd.Function):
    """Poisson negative log-likelihood (up to a constant) of list-mode detector readings."""

    @staticmethod
    def forward(ctx, line, gain, scatter, counts, det, live, i0, reduction):
        primary = gain[det] * i0 * torch.exp(-line)
        lam = primary + scatter
        ok = live[det].to(line.dtype)
        ctx.reduction = reduction
        ctx.i0 = i0
        ctx.save_for_backward(line, gain, scatter, counts, det, ok)
        nll = (lam - counts * torch.log(lam)) * ok
        if reduction == "none":
            return nll
        return nll.sum() / ok.sum() if reduction == "mean" else nll.sum()

    @staticmethod
    def backward(ctx, g):
        line, gain, scatter, counts, det, ok = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / ok.sum()
        open_beam = ctx.i0 * torch.exp(-line)
        lam = gain[det] * open_beam + scatter
        h = g * ok * (1 - counts / lam)
        d_line = -h * gain[det] * open_beam
        d_gain = torch.zeros_like(gain).index_add_(0, det, h * open_beam)
        d_scatter = h.sum_to_size(scatter.shape)
        return d_line, d_gain, d_scatter, None, None, None, None, None


class PhotonCountingDetector(nn.Module):
    def __init__(self, energies, mu, kvp=120.0, edges=(25.0, 51.0, 65.0, 80.0), border="zero"):
        super().__init__()
        self.register_buffer("mu", mu)                        # (materials, energies)
        self.spec = nn.Parameter(bin_responses(tube_spectrum(kvp, energies), energies, edges))
        self.share = nn.Parameter(torch.full((len(edges),), 0.03))
        self.border = border

    def forward(self, paths):                                 # (views, rows, cols, materials)
        att = _PolyAttenuation.apply(paths, self.mu, self.spec)
        frac = torch.exp(-att).permute(0, 3, 1, 2)            # (views, bins, rows, cols)
        return ChargeSharing.apply(frac.contiguous(), self.share, self.border)


def decompose(detector, frac, shape, steps=100, lr=0.05):
    paths = torch.zeros(shape, requires_grad=True)
    opt = torch.optim.Adam([paths], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (detector(paths) - frac).square().sum()
        loss.backward()
        opt.step()
        with torch.no_grad():
            paths.clamp_(min=0)
    return paths.detach()


def demo(seed=0):
    gen = torch.Generator().manual_seed(seed)
    energies = torch.linspace(20, 118, 50)
    mu = torch.stack([0.2 * (60 / energies) ** 1.2, 1.9 * (60 / energies) ** 2.8])
    detector = PhotonCountingDetector(energies, mu, border="replicate")
    truth = torch.rand(2, 6, 9, 2, generator=gen)
    frac = detector(truth).detach()
    est = decompose(detector, frac, truth.shape)

    det = torch.randint(0, 12, (400,), generator=gen)         # 12 detectors, 400 readings
    live = torch.arange(12) != 7
    gain = torch.ones(12, requires_grad=True)
    scatter = torch.full((400,), 3.0)
    line = torch.rand(400, generator=gen)
    counts = torch.poisson(100 * torch.exp(-line) + 3.0, generator=gen)
    nll = ReadingNLL.apply(line, gain, scatter, counts, det, live, 100.0, "mean")
    nll.backward()
    return (est - truth).abs().mean().item(), gain.grad
