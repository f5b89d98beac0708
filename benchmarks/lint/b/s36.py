import torch


def iwae_loss(log_px_z, log_pz, log_qz_x):
    """Importance weighted bound; tensors are (samples, batch)."""
    log_w = log_px_z + log_pz - log_qz_x
    bound = torch.log(torch.mean(torch.exp(log_w), dim=0))
    return -bound.mean()
