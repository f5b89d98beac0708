import math
import torch as th


def mvn_loss(x, mean, cov):
    """Negative log likelihood of rows of x under N(mean, cov), cov positive definite."""
    d = x.shape[-1]
    r = (x - mean).unsqueeze(-1)
    chol = th.linalg.cholesky(cov)
    maha = (r * th.cholesky_solve(r, chol)).sum(dim=(-2, -1))
    logdet = 2.0 * chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * (maha + logdet + d * math.log(2 * math.pi)).mean()
