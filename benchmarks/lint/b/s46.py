import math

import torch


def probit_nll(f, y):
    """y in {-1, +1}, f the latent score."""
    margin = y * f
    cdf = 0.5 * (1.0 + torch.erf(margin / math.sqrt(2.0)))
    return -torch.log(cdf).mean()
