import math
import torch as th


def gaussian_nll(x, mean, cov):
    """Negative log likelihood of rows of x under N(mean, cov), cov positive definite."""
    d = x.shape[-1]
    r = (x - mean).unsqueeze(-1)
    maha = (r * th.linalg.solve(cov, r)).sum(dim=(-2, -1))
    logdet = th.det(cov).log()
    return 0.5 * (maha + logdet + d * math.log(2 * math.pi)).mean()
