import torch


def rodrigues_b(theta):
    """Second coefficient of the rotation exponential."""
    small = theta.abs() < 1e-2
    angle = torch.where(small, torch.ones_like(theta), theta)
    versine = 2.0 * torch.sin(0.5 * angle) ** 2
    return torch.where(small, 0.5 - theta**2 / 24.0, versine / angle**2)


def exp_so3_second_order(omega_hat, theta):
    b = rodrigues_b(theta)[..., None, None]
    return b * (omega_hat @ omega_hat)
