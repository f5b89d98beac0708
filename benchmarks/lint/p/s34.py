import torch
from torch import nn


class CompressedSpectralLoss(nn.Module):
    def __init__(self, n_fft=512, hop=128, exponent=0.3):
        super().__init__()
        self.n_fft, self.hop, self.exponent = n_fft, hop, exponent
        self.register_buffer("window", torch.hann_window(n_fft))

    def compress(self, wav):
        spec = torch.stft(wav, self.n_fft, self.hop, window=self.window, return_complex=True)
        return spec.abs().clamp(min=1e-5).pow(self.exponent)

    def forward(self, est, ref):
        return (self.compress(est) - self.compress(ref)).square().mean()
