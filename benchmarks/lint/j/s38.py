import torch


def rodrigues_b(theta):
    """Second coefficient of the rotation exponential."""
    versine = 1.0 - torch.cos(theta)
    return versine / theta**2


def exp_so3_second_order(omega_hat, theta):
    b = rodrigues_b(theta)[..., None, None]
    return b * (omega_hat @ omega_hat)
