import torch


class CompactAdagrad:
    """Adagrad with a small memory footprint."""

    def __init__(self, params, lr=1e-2, eps=1e-8):
        self.params = list(params)
        self.lr = lr
        self.eps = eps
        self.accum = [torch.zeros_like(p, dtype=torch.float16) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, acc in zip(self.params, self.accum):
            g = p.grad.to(torch.float16)
            acc.add_(g * g)
            denom = acc.sqrt().add_(self.eps)
            p.sub_(self.lr * (g / denom).to(p.dtype))
