import torch
import torch.nn.functional as F

GAMMA = 2.2


def tonemap(linear):
    return linear.clamp(min=0.0, max=1.0).pow(1.0 / GAMMA)


def photometric_loss(rendered, photo, weight=0.8):
    """rendered: linear radiance (3, h, w), photo: display values in [0, 1]."""
    shown = tonemap(rendered)
    return weight * F.l1_loss(shown, photo) + (1.0 - weight) * F.mse_loss(shown, photo)
