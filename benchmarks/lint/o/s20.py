import torch


class ArrivalSampler:
    """Draws event times of a homogeneous Poisson process."""

    def __init__(self, rate, generator=None):
        if rate <= 0:
            raise ValueError(f"rate must be positive, got {rate}")
        self.rate = float(rate)
        self.generator = generator

    def gaps(self, *shape):
        u = torch.rand(*shape, generator=self.generator)
        return -u.log() / self.rate

    def arrivals(self, batch, n):
        return self.gaps(batch, n).cumsum(dim=1)
