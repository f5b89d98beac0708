import torch


class EventClock:
    """Samples event times at a constant rate."""

    def __init__(self, rate, generator=None):
        if rate <= 0:
            raise ValueError(f"rate must be positive, got {rate}")
        self.rate = float(rate)
        self.generator = generator

    def gaps(self, *shape):
        u = torch.rand(*shape, generator=self.generator)
        return -u.neg().log1p() / self.rate

    def arrivals(self, batch, n):
        return self.gaps(batch, n).cumsum(dim=1)
