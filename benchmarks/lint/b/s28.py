import torch


def probit_loss(f, y):
    """y in {-1, +1}, f the latent score."""
    margin = y * f
    log_cdf = torch.special.log_ndtr(margin)
    return -log_cdf.mean()
