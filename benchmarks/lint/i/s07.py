import torch

CUTOFF = 0.0031308


def linear_to_srgb(linear):
    linear = linear.clamp(0.0, 1.0)
    low = 12.92 * linear
    bright = torch.where(linear <= CUTOFF, torch.ones_like(linear), linear)
    high = 1.055 * bright.pow(1.0 / 2.4) - 0.055
    return torch.where(linear <= CUTOFF, low, high)


def photometric_loss(rendered, target_srgb):
    return (linear_to_srgb(rendered) - target_srgb).abs().mean()
