import torch


def ot_plan(x, y, reg=0.01, n_iter=50):
    """Entropic transport plan between two uniform point clouds."""
    cost = (x[:, None, :] - y[None, :, :]).pow(2).sum(-1)
    n, m = cost.shape
    a = torch.full((n,), 1.0 / n)
    b = torch.full((m,), 1.0 / m)
    kernel = torch.exp(-cost / reg)
    v = torch.ones(m)
    for _ in range(n_iter):
        u = a / (kernel @ v)
        v = b / (kernel.t() @ u)
    return u[:, None] * kernel * v[None, :]
