import torch

CUT = 0.0031308


def encode_srgb(rgb):
    low = 12.92 * rgb
    high = 1.055 * rgb.clamp(min=CUT).pow(1.0 / 2.4) - 0.055
    return torch.where(rgb <= CUT, low, high)


def render_loss(linear, target):
    return (encode_srgb(linear) - target).abs().mean()
