"""Body keypoints: skeletons, matching scores, mirrored test-time heatmaps and left/right priors."""

from typing import Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

COCO_PARENTS = (-1, 0, 0, 1, 2, 0, 0, 5, 6, 7, 8, 5, 6, 11, 12, 13, 14)
COCO_MIRROR = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15)


class BoneVectors(Function):
    """Vectors from parent to child joints, in units of the torso if asked.

    Args:
        joints: ``(B, J, D)`` coordinates.
        parents: ``(J,)`` integer table, -1 marks a root whose own coordinates are returned.
        torso: pair of joints whose distance is the unit of length, or ``None``.

    Returns:
        ``(B, J, D)`` bones.
    """

    @staticmethod
    def forward(ctx, joints, parents, torso):
        rooted = parents < 0
        origin = joints[:, parents.clamp(min=0)]
        origin = origin.masked_fill(rooted[None, :, None], 0.0)
        bones = joints - origin
        unit = None
        if torso is not None:
            span = joints[:, torso[0]] - joints[:, torso[1]]
            unit = span.norm(dim=-1)
            bones = bones / unit[:, None, None]
            ctx.save_for_backward(parents, bones, unit, span)
        else:
            ctx.save_for_backward(parents)
        ctx.torso = torso
        return bones

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        parents = ctx.saved_tensors[0]
        g = grad
        if ctx.torso is not None:
            _, bones, unit, span = ctx.saved_tensors
            g = grad / unit[:, None, None]
        moving = parents >= 0
        out = g.clone()
        out.index_add_(1, parents[moving], -g[:, moving])
        if ctx.torso is not None:
            pull = (grad * bones).sum((1, 2)) / unit**2
            a, b = ctx.torso
            out[:, a] -= pull[:, None] * span
            out[:, b] += pull[:, None] * span
        return out, None, None


class KeypointSimilarity(Function):
    """Pairwise object keypoint similarity.

    Args:
        guess: ``(P, J, 2)`` predictions.
        truth: ``(G, J, 2)`` annotations.
        flags: ``(G, J)`` COCO flags; 0 not labelled, 1 labelled but hidden, 2 labelled and visible.
        area: ``(G,)`` object areas.
        log_kappa: ``(J,)`` log of the per-joint falloff.

    Returns:
        ``(P, G)`` similarities in [0, 1]; annotations without labelled joints score 0.
    """

    @staticmethod
    def forward(ctx, guess, truth, flags, area, log_kappa):
        labelled = (flags > 0).to(guess.dtype)
        count = labelled.sum(-1).clamp(min=1)
        apart = ((guess[:, None] - truth[None]) ** 2).sum(-1)
        width = 2 * area[:, None] * torch.exp(2 * log_kappa)
        bell = torch.exp(-apart / width)
        ctx.save_for_backward(guess, truth, flags, count, area, width, apart, bell)
        return (bell * labelled).sum(-1) / count

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        guess, truth, flags, count, area, width, apart, bell = ctx.saved_tensors
        weight = flags.to(grad.dtype) / count[:, None]
        g_bell = grad[..., None] * weight * bell
        slope = g_bell * apart / width
        pull = (-2 * g_bell / width)[..., None] * (guess[:, None] - truth[None])
        return pull.sum(1), -pull.sum(0), None, slope.sum((0, 2)) / area, 2 * slope.sum((0, 1))


class MirrorMerge(Function):
    """Average of heatmaps and those of the mirrored image, swapped back.

    Args:
        plain: ``(B, J, H, W)`` heatmaps of the image.
        mirrored: the same of the mirrored image.
        swap: ``(J,)`` joint of the mirrored output that stands for each joint.
        shift: move the mirrored maps one pixel right, the first column staying, to align strided networks.
    """

    @staticmethod
    def forward(ctx, plain, mirrored, swap, shift):
        back = mirrored.flip(-1)[:, swap]
        if shift:
            back = torch.cat([back[..., :1], back[..., :-1]], dim=-1)
        ctx.shift = shift
        ctx.save_for_backward(swap)
        return 0.5 * (plain + back)

    @staticmethod
    def backward(ctx, grad):
        (swap,) = ctx.saved_tensors
        half = 0.5 * grad
        g = half
        if ctx.shift:
            g = torch.cat([half[..., 1:], torch.zeros_like(half[..., :1])], dim=-1)
            g[..., 0] += half[..., 0]
        g = torch.zeros_like(g).index_add_(1, swap, g)
        return half, g.flip(-1), None, None


class LimbSymmetry(Function):
    """Squared relative difference of left and right bone lengths.

    Args:
        lengths: ``(B, J)`` positive bone lengths.
        left, right: ``(K,)`` columns of the bones that form pairs.
        weights: ``(K,)`` weight of each pair.

    Returns:
        ``(B,)`` penalties.
    """

    @staticmethod
    def forward(ctx, lengths, left, right, weights):
        a, b = lengths[:, left], lengths[:, right]
        total = a + b
        skew = (a - b) / total
        ctx.save_for_backward(lengths, left, right, weights, total, skew)
        return (weights * skew**2).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        lengths, left, right, weights, total, skew = ctx.saved_tensors
        g_skew = 2 * grad[:, None] * weights * skew
        rate = 2 * g_skew / total**2
        out = torch.zeros_like(lengths)
        out.index_add_(1, left, rate * lengths[:, left])
        out.index_add_(1, right, -rate * lengths[:, right])
        return out, None, None, (grad[:, None] * skew**2).sum(0)


def bone_vectors(joints: Tensor, parents: Tensor, torso: Tuple[int, int] = None) -> Tensor:
    return BoneVectors.apply(joints, parents, torso)


def keypoint_similarity(guess, truth, flags, area, log_kappa) -> Tensor:
    return KeypointSimilarity.apply(guess, truth, flags, area, log_kappa)


def mirror_merge(plain: Tensor, mirrored: Tensor, swap: Tensor, shift: bool = False) -> Tensor:
    return MirrorMerge.apply(plain, mirrored, swap, shift)


def limb_symmetry(lengths: Tensor, left: Tensor, right: Tensor, weights: Tensor) -> Tensor:
    return LimbSymmetry.apply(lengths, left, right, weights)


class SkeletonPrior(nn.Module):
    """Symmetry penalty on the bones of a skeleton, with a learnable weight per pair."""

    def __init__(self, pairs: Sequence[Tuple[int, int]], parents: Sequence[int] = COCO_PARENTS):
        super().__init__()
        self.register_buffer("parents", torch.tensor(parents))
        self.register_buffer("left", torch.tensor([p[0] for p in pairs]))
        self.register_buffer("right", torch.tensor([p[1] for p in pairs]))
        self.weights = nn.Parameter(torch.ones(len(pairs)))

    def forward(self, joints):
        bones = bone_vectors(joints, self.parents)
        return limb_symmetry(bones.norm(dim=-1), self.left, self.right, self.weights)


class MatchLoss(nn.Module):
    """One minus the similarity of matched rows, learnable falloffs."""

    def __init__(self, joints=17, kappa=0.1):
        super().__init__()
        self.log_kappa = nn.Parameter(torch.full((joints,), kappa).log())

    def forward(self, guess, truth, flags, area):
        return 1 - keypoint_similarity(guess, truth, flags, area, self.log_kappa).diagonal().mean()
