import torch

KNEE = 0.0031308


def linear_to_srgb(rgb):
    low = 12.92 * rgb
    high = 1.055 * rgb.pow(1.0 / 2.4) - 0.055
    return torch.where(rgb <= KNEE, low, high)


def photometric_loss(linear, target):
    return (linear_to_srgb(linear) - target).abs().mean()
