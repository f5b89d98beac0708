import torch


def multi_sample_bound(log_px_z, log_pz, log_qz_x):
    """Importance weighted bound; tensors are (samples, batch)."""
    log_w = log_px_z + log_pz - log_qz_x
    top, _ = torch.max(log_w, dim=0, keepdim=True)
    w = torch.exp(log_w - top)
    bound = top.squeeze(0) + torch.log(torch.mean(w, dim=0))
    return -bound.mean()
