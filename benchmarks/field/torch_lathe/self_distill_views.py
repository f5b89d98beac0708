"""Self-distillation losses over image views (DINO / iBOT family).

The student sees every crop, the teacher only the global ones; the student's
first crops are the teacher's crops, in the same order.  Besides the two
distillation terms there is a spectrum regulariser that keeps the embedding
covariance from collapsing onto a few directions.

Shapes:
    V  student views      T  teacher views (T <= V)
    B  images             N  patches per image
    K  prototypes         D  embedding width
"""

from __future__ import annotations

import copy
import math

import torch
import torch.nn.functional as F
from torch import nn

SPECTRUM_FLOOR = 1e-12


def _sharpen(logits, centre, temperature):
    return F.softmax((logits - centre) / temperature, dim=-1)


class ViewCrossEntropy(torch.autograd.Function):
    """Cross entropy between teacher and student views of the same image.

    student (V, B, K), teacher (T, B, K), centre (K,).  Averages over images and
    over all (teacher, student) pairs, leaving out pairs of the same crop unless
    ``skip_same`` is false.  Teacher and centre are fixed targets: they receive
    no gradient.
    """

    @staticmethod
    def forward(ctx, student, teacher, centre, student_temp, teacher_temp, skip_same=True):
        views, images, _ = student.shape
        targets = _sharpen(teacher, centre, teacher_temp)
        log_probs = F.log_softmax(student / student_temp, dim=-1)
        allowed = torch.ones(teacher.shape[0], views, dtype=student.dtype, device=student.device)
        if skip_same:
            allowed.fill_diagonal_(0.0)
        pairs = allowed.sum().clamp(min=1.0)
        # summed target of each student view
        wanted = torch.einsum("tv,tbk->vbk", allowed, targets)
        ctx.save_for_backward(log_probs, wanted, allowed, pairs)
        ctx.student_temp = student_temp
        return -(wanted * log_probs).sum() / (pairs * images)

    @staticmethod
    def backward(ctx, grad):
        log_probs, wanted, allowed, pairs = ctx.saved_tensors
        seen_by = allowed.sum(0)[:, None, None]
        residual = seen_by * log_probs.exp() - wanted
        scale = grad / (pairs * log_probs.shape[1] * ctx.student_temp)
        return residual * scale, None, None, None, None, None


class MaskedPatchDistill(torch.autograd.Function):
    """Masked-patch distillation.

    Parameters
    ----------
    student : Tensor, (B, N, K)
        Patch logits of the student, which saw the masked image.
    teacher : Tensor, (B, N, K)
        Target probabilities (already sharpened), held fixed.
    mask : BoolTensor, (B, N)
        Patches hidden from the student.  Masking is applied to a random part
        of the images only; the others have no hidden patch.
    temperature : float

    Returns
    -------
    Tensor, ()
        Mean over hidden patches within an image, then over the masked images.
    """

    @staticmethod
    def forward(ctx, student, teacher, mask, temperature=0.1):
        log_probs = F.log_softmax(student / temperature, dim=-1)
        per_patch = -(teacher * log_probs).sum(-1)
        hidden = mask.to(student.dtype)
        count = hidden.sum(1)
        per_image = (per_patch * hidden).sum(1) / count.clamp(min=1.0)
        images = (count > 0).sum().clamp(min=1)
        ctx.save_for_backward(log_probs, teacher, hidden)
        ctx.temperature = temperature
        return per_image.sum() / images

    @staticmethod
    def backward(ctx, grad):
        log_probs, teacher, hidden = ctx.saved_tensors
        within = hidden / hidden.sum(1, keepdim=True).clamp(min=1.0)
        weight = within / (hidden.shape[0] * ctx.temperature)
        mass = teacher.sum(-1, keepdim=True)
        g_student = grad * weight[..., None] * (mass * log_probs.exp() - teacher)
        return g_student, None, None, None


class CovarianceRenyi(torch.autograd.Function):
    """Renyi entropy of the normalised covariance spectrum of (B, D) embeddings.

    ``order`` 1 is the Shannon entropy; other orders must exceed 1.  Rows must
    not be all equal.
    """

    @staticmethod
    def forward(ctx, embeddings, order=1.0, center=True):
        if order < 1.0:
            raise ValueError("order must be at least 1")
        z = embeddings - embeddings.mean(0) if center else embeddings
        values, vectors = torch.linalg.eigh(z.t() @ z)
        values = values.clamp(min=0.0)
        trace = values.sum().clamp(min=SPECTRUM_FLOOR)
        share = values / trace
        if order == 1.0:
            entropy = -(share * torch.log(share + SPECTRUM_FLOOR)).sum()
        else:
            entropy = torch.log((share**order).sum()) / (1.0 - order)
        ctx.save_for_backward(z, vectors, share, trace)
        ctx.order, ctx.center = order, center
        return entropy

    @staticmethod
    def backward(ctx, grad):
        z, vectors, share, trace = ctx.saved_tensors
        order = ctx.order
        if order == 1.0:
            padded = share + SPECTRUM_FLOOR
            g_share = -(torch.log(padded) + share / padded)
        else:
            g_share = order * share ** (order - 1.0)
            g_share = g_share / ((1.0 - order) * (share**order).sum())
        g_values = (g_share - (g_share * share).sum()) / trace
        g_z = 2.0 * z @ (vectors * g_values) @ vectors.t()
        if ctx.center:
            g_z = g_z - g_z.mean(0)
        return grad * g_z, None, None


class ProjectionHead(nn.Module):
    """MLP with l2 bottleneck, then prototypes of unit length."""

    def __init__(self, width: int, hidden: int, bottleneck: int, prototypes: int):
        super().__init__()
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(),
            nn.Linear(hidden, bottleneck),
        )
        self.prototypes = nn.Parameter(torch.randn(prototypes, bottleneck))

    def forward(self, x):
        x = F.normalize(self.mlp(x), dim=-1)
        return x @ F.normalize(self.prototypes, dim=-1).t()


class TeacherCentre(nn.Module):
    """Running mean of teacher logits subtracted before sharpening."""

    def __init__(self, prototypes: int, momentum: float = 0.9):
        super().__init__()
        self.momentum = momentum
        self.register_buffer("value", torch.zeros(prototypes))

    @torch.no_grad()
    def update(self, logits):
        batch = logits.reshape(-1, logits.shape[-1]).mean(0)
        self.value.lerp_(batch, 1.0 - self.momentum)


class SelfDistillation(nn.Module):
    """Student, EMA teacher and the three loss terms.

    The backbone maps (B, N, width) patch embeddings to the same shape; the
    image token is the mean over patches.
    """

    def __init__(self, backbone, head, prototypes, student_temp=0.1, teacher_temp=0.04,
                 patch_weight=1.0, spectrum_weight=0.05, spectrum_order=2.0, ema=0.996):
        super().__init__()
        self.student = nn.ModuleDict({"backbone": backbone, "head": head})
        self.teacher = copy.deepcopy(self.student)
        for p in self.teacher.parameters():
            p.requires_grad_(False)
        self.mask_token = nn.Parameter(torch.zeros(1))
        self.centre = TeacherCentre(prototypes)
        self.student_temp, self.teacher_temp = student_temp, teacher_temp
        self.patch_weight, self.spectrum_weight = patch_weight, spectrum_weight
        self.spectrum_order = spectrum_order
        self.ema = ema

    def _run(self, net, patches):
        features = net["backbone"](patches)
        return features, net["head"](features)

    def forward(self, crops, n_global, mask):
        """crops: list of (B, N, width); mask: (B, N) for the first crop."""
        with torch.no_grad():
            taught = [self._run(self.teacher, c)[1] for c in crops[:n_global]]
            teacher_view = torch.stack([t.mean(1) for t in taught])
            patch_target = _sharpen(taught[0], self.centre.value, self.teacher_temp)
        first = torch.where(mask[..., None], self.mask_token, crops[0])
        features, logits = zip(*[self._run(self.student, c) for c in [first, *crops[1:]]])
        views = torch.stack([item.mean(1) for item in logits])
        view_loss = ViewCrossEntropy.apply(
            views, teacher_view, self.centre.value, self.student_temp, self.teacher_temp
        )
        patch_loss = MaskedPatchDistill.apply(logits[0], patch_target, mask, self.student_temp)
        pooled = features[0].mean(1)
        spectrum = CovarianceRenyi.apply(pooled, self.spectrum_order)
        self.centre.update(teacher_view)
        total = view_loss + self.patch_weight * patch_loss - self.spectrum_weight * spectrum
        return total, {"view": view_loss, "patch": patch_loss, "rank": spectrum.exp()}

    @torch.no_grad()
    def update_teacher(self):
        for t, s in zip(self.teacher.parameters(), self.student.parameters()):
            t.lerp_(s, 1.0 - self.ema)


def sample_block_mask(images, side, ratio=(0.1, 0.5), probability=0.5, generator=None):
    """Random square of hidden patches for a part of the images."""
    mask = torch.zeros(images, side, side, dtype=torch.bool)
    for i in range(images):
        if torch.rand((), generator=generator) > probability:
            continue
        fraction = ratio[0] + (ratio[1] - ratio[0]) * torch.rand((), generator=generator).item()
        edge = max(1, round(side * math.sqrt(fraction)))
        top, left = torch.randint(0, side - edge + 1, (2,), generator=generator).tolist()
        mask[i, top:top + edge, left:left + edge] = True
    return mask.flatten(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    width, side, images = 16, 4, 6
    backbone = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
    model = SelfDistillation(backbone, ProjectionHead(width, 32, 8, 24), prototypes=24)
    crops = [torch.randn(images, side * side, width) for _ in range(4)]
    opt = torch.optim.AdamW(model.student.parameters(), lr=1e-3)
    for _ in range(3):
        loss, parts = model(crops, 2, sample_block_mask(images, side, probability=1.0))
        opt.zero_grad()
        loss.backward()
        opt.step()
        model.update_teacher()
        print({k: round(v.item(), 4) for k, v in parts.items()})
