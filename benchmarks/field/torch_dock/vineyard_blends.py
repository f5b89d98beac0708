import torch
from torch import nn
from torch.autograd import Function

GAIN, RATE, SHAPE = 0, 1, 2


class RipeningCurve(Function):
    @staticmethod
    def forward(days, start, cultivar, table):
        gain, rate, shape = table[cultivar].unbind(-1)
        z = (rate * days.clamp(min=0)).pow(shape)
        return start - gain * torch.expm1(-z)

    @staticmethod
    def setup_context(ctx, inputs, output):
        days, _, cultivar, table = inputs
        ctx.save_for_backward(days, cultivar, table)

    @staticmethod
    def backward(ctx, g):
        days, cultivar, table = ctx.saved_tensors
        gain, rate, shape = table[cultivar].unbind(-1)
        after = days > 0
        t = torch.where(after, days, torch.ones_like(days))
        z = (rate * t).pow(shape)
        pull = torch.where(after, g * gain * torch.exp(-z) * z, torch.zeros_like(g))
        rows = torch.stack(
            [
                torch.where(after, -g * torch.expm1(-z), torch.zeros_like(g)),
                pull * shape / rate,
                pull * torch.log(rate * t),
            ],
            dim=-1,
        )
        grad_table = torch.zeros_like(table)
        grad_table[cultivar] += rows
        return pull * shape / t, g, None, grad_table


class LotBlend(Function):
    @staticmethod
    def forward(ctx, analyses, litres, tank, n_tanks):
        k = analyses.shape[1]
        total = litres.new_zeros(n_tanks).index_add(0, tank, litres)
        load = analyses.new_zeros(n_tanks, k).index_add(0, tank, analyses * litres[:, None])
        used = total > 0
        safe = torch.where(used, total, torch.ones_like(total))
        mix = load / safe[:, None]
        ctx.save_for_backward(analyses, litres, tank, safe, mix)
        return mix

    @staticmethod
    def backward(ctx, g):
        analyses, litres, tank, safe, mix = ctx.saved_tensors
        pull = (g / safe[:, None])[tank]
        d_analyses = pull * litres[:, None]
        d_litres = torch.einsum("lk,lk->l", pull, analyses - mix[tank])
        return d_analyses, d_litres, None, None


class RackingPath(Function):
    # first: (barrels,)   loss: (rackings,)   topup: (barrels, rackings)
    @staticmethod
    def forward(first, loss, topup):
        level = [first]
        for s in range(loss.shape[0]):
            level.append(level[-1] * (1 - loss[s]) + topup[:, s])
        return torch.stack(level, dim=1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, loss, _ = inputs
        ctx.save_for_backward(loss, output)

    @staticmethod
    def backward(ctx, g):
        loss, level = ctx.saved_tensors
        n = loss.shape[0]
        lam = g.clone()
        for s in range(n - 1, -1, -1):
            lam[:, s] += lam[:, s + 1] * (1 - loss[s])
        d_loss = -(lam[:, 1:] * level[:, :-1])
        return lam[:, 0], d_loss, lam[:, 1:]


class Ripening(nn.Module):
    def __init__(self, n_cultivars):
        super().__init__()
        self.log_table = nn.Parameter(torch.tensor([[2.7, -3.4, 0.3]]).repeat(n_cultivars, 1))

    def forward(self, days, start, cultivar):
        return RipeningCurve.apply(days, start, cultivar, self.log_table.exp())


def potential_alcohol(brix):
    return 0.6 * brix - 1.0


def blend_tanks(brix, acid, litres, tank, n_tanks):
    analyses = torch.stack([potential_alcohol(brix), acid], dim=1)
    return LotBlend.apply(analyses, litres, tank, n_tanks)


def cellar_year(first, loss, topup, capacity=225.0):
    return RackingPath.apply(first, torch.sigmoid(loss), topup).clamp(max=capacity)


def fit_ripening(samples, n_cultivars, epochs=300):
    # samples: dict with one entry per berry sample, several weeks and blocks of each cultivar
    model = Ripening(n_cultivars)
    opt = torch.optim.Adam(model.parameters(), lr=2e-2)
    for _ in range(epochs):
        opt.zero_grad()
        out = model(samples["days"], samples["start"], samples["cultivar"])
        loss = (out - samples["brix"]).square().mean()
        loss.backward()
        opt.step()
    return model


def main():
    torch.manual_seed(4)
    weeks, blocks = 9, 4
    days = torch.arange(weeks).repeat(blocks) * 7.0 - 7.0
    cultivar = torch.tensor([0, 2, 1, 0]).repeat_interleave(weeks)
    samples = {
        "days": days,
        "start": torch.full_like(days, 6.0),
        "cultivar": cultivar,
        "brix": 6.0 + 17.0 * (1 - torch.exp(-(days.clamp(min=0) / 28.0) ** 1.4)),
    }
    model = fit_ripening(samples, n_cultivars=3, epochs=50)
    picked = model(torch.full((4,), 45.0), torch.full((4,), 6.0), torch.tensor([0, 2, 1, 0]))
    mix = blend_tanks(picked, torch.tensor([6.1, 7.0, 5.5, 6.4]),
                      torch.tensor([900.0, 450.0, 1200.0, 300.0]), torch.tensor([0, 0, 2, 2]), 3)
    barrels = cellar_year(torch.full((6,), 220.0), torch.full((4,), -3.5), torch.rand(6, 4) * 5)
    print(mix, barrels[:, -1])


if __name__ == "__main__":
    main()
