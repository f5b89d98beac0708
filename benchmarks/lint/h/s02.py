import torch
from torch import nn
from torch.nn import functional as F


class FreeEnergy(nn.Module):
    def __init__(self, dim, n_classes, temperature=1.0):
        super().__init__()
        self.fc = nn.Linear(dim, n_classes)
        self.temperature = temperature

    def forward(self, h):
        z = self.fc(h) / self.temperature
        top = z.detach().amax(-1, keepdim=True)
        mass = (z - top).exp().sum(-1).log()
        energy = -self.temperature * (mass + top.squeeze(-1))
        return z, energy


def margin_loss(e_in, e_out, m_in=-23.0, m_out=-5.0):
    pull = F.relu(e_in - m_in).pow(2).mean()
    push = F.relu(m_out - e_out).pow(2).mean()
    return 0.5 * (pull + push)
