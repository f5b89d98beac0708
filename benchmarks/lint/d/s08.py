import torch


class HalfAdam:
    def __init__(self, params, lr=1e-3, b1=0.9, b2=0.999):
        self.params, self.lr, self.b1, self.b2 = list(params), lr, b1, b2
        self.m = [torch.zeros_like(p, dtype=torch.float16) for p in self.params]
        self.v = [torch.zeros_like(p, dtype=torch.float16) for p in self.params]

    @torch.no_grad()
    def step(self):
        for p, m, v in zip(self.params, self.m, self.v):
            g = p.grad.to(m.dtype)
            m.mul_(self.b1).add_(g, alpha=1 - self.b1)
            v.mul_(self.b2).addcmul_(g, g, value=1 - self.b2)
            denom = v.sqrt().add_(1e-8)
            p.add_((m / denom).to(p.dtype), alpha=-self.lr)
