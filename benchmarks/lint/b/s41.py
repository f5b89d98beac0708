import torch


class SensorScaler:
    """Standardises columns such as barometric pressure in Pa."""

    def fit(self, x):
        x = x.to(torch.float32)
        self.mean = x.mean(dim=0)
        var = x.square().mean(dim=0) - self.mean.square()
        self.scale = var.clamp(min=1e-8).rsqrt()
        return self

    def transform(self, x):
        return (x.to(torch.float32) - self.mean).mul_(self.scale)
