import torch
import torch.nn.functional as F


def variance_term(z, gamma=1.0):
    std = z.var(dim=0).sqrt()
    return F.relu(gamma - std).mean()


def vicreg(za, zb, sim_coeff=25.0, std_coeff=25.0):
    invariance = F.mse_loss(za, zb)
    return sim_coeff * invariance + std_coeff * 0.5 * (variance_term(za) + variance_term(zb))
