import torch

KNEE = 0.0031308


def linear_to_srgb(img):
    low = 12.92 * img
    high = 1.055 * img.clamp(min=KNEE).pow(1.0 / 2.4) - 0.055
    return torch.where(img <= KNEE, low, high)


def photometric_loss(render, target):
    diff = linear_to_srgb(render) - target
    return diff.abs().mean()
