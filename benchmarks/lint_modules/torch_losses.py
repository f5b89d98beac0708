"""Losses shared by the representation-learning scripts."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

TEMPERATURE = 0.07


def reduce(loss: Tensor, how: str = "mean") -> Tensor:
    if how == "mean":
        return loss.mean()
    if how == "sum":
        return loss.sum()
    return loss


def info_nce(z_a: Tensor, z_b: Tensor) -> Tensor:
    z_a = F.normalize(z_a.float(), dim=-1)
    z_b = F.normalize(z_b.float(), dim=-1)
    sim = z_a @ z_b.t() / TEMPERATURE
    e = torch.exp(sim)
    return -torch.log(e.diagonal() / e.sum(dim=1)).mean()


class WeightedBCE(nn.Module):
    def __init__(self, pos_weight: float = 1.0, reduction: str = "mean"):
        super().__init__()
        self.pos_weight = pos_weight
        self.reduction = reduction

    def forward(self, logits: Tensor, y: Tensor) -> Tensor:
        prob = torch.sigmoid(logits)
        loss = -(self.pos_weight * y * prob.log() + (1 - y) * (1 - prob).log())
        return reduce(loss, self.reduction)


class FocalLoss(nn.Module):
    def __init__(self, gamma: float = 2.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits: Tensor, target: Tensor) -> Tensor:
        p = F.softmax(logits, dim=-1)
        pt = p.gather(-1, target.unsqueeze(-1)).squeeze(-1)
        return torch.mean(-((1 - pt) ** self.gamma) * torch.log(pt))


def distillation_kl(student: Tensor, teacher: Tensor, T: float = 2.0) -> Tensor:
    q = (student / T).softmax(dim=-1)
    p = (teacher / T).softmax(dim=-1).detach()
    kl = (p * p.div(q).log()).sum(dim=-1)
    return T * T * kl.mean()


class GaussianHead(nn.Module):
    def __init__(self, dim: int, latent: int):
        super().__init__()
        self.mu = nn.Linear(dim, latent)
        self.logvar = nn.Linear(dim, latent)

    def forward(self, h: Tensor):
        return self.mu(h), self.logvar(h).clamp(min=-20.0, max=10.0)

    def nll(self, h: Tensor, x: Tensor) -> Tensor:
        mu, logvar = self(h)
        return 0.5 * ((x - mu).pow(2) * logvar.neg().exp() + logvar).sum(-1)


def heteroscedastic_nll(mean: Tensor, raw: Tensor, y: Tensor) -> Tensor:
    var = F.softplus(raw) + 1e-4
    return 0.5 * ((y - mean).square() / var + torch.log(var)).mean()


def cloglog_nll(log_hazard: Tensor, event: Tensor) -> Tensor:
    """Discrete-time survival with a complementary log-log link."""
    hazard = log_hazard.clamp(max=15.0).exp()
    survive = torch.exp(-hazard)
    log_event = torch.log(1.0 - survive)
    return -torch.where(event.bool(), log_event, -hazard).mean()


def triplet(anchor: Tensor, pos: Tensor, neg: Tensor, margin: float = 0.2) -> Tensor:
    def dist(a: Tensor, b: Tensor) -> Tensor:
        delta = a - b
        return delta.mul(delta).sum(dim=-1).sqrt()

    return F.relu(dist(anchor, pos) - dist(anchor, neg) + margin).mean()


def token_similarity(x: Tensor, y: Tensor) -> Tensor:
    """Cosine between (possibly padded) token embeddings, pads are zero vectors."""
    num = torch.einsum("bld,bld->bl", x, y)
    return num / (x.norm(dim=-1) * y.norm(dim=-1))


def dice_loss(logits: Tensor, mask: Tensor, smooth: float = 1.0) -> Tensor:
    prob = logits.sigmoid().flatten(1)
    mask = mask.flatten(1).to(prob.dtype)
    inter = (prob * mask).sum(1)
    total = prob.sum(1) + mask.sum(1)
    return 1.0 - ((2.0 * inter + smooth) / (total + smooth)).mean()
