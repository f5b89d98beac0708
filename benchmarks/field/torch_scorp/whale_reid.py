"""Re-identification of humpback whales from photographs of their flukes."""
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


@dataclass(frozen=True)
class CentroidSettings:
    """Margin of the centroid hinge, in squared distance."""

    margin: float = 0.3


class RivalCentroidCost(Function):
    """Each photograph should lie nearer to its own whale's centroid than to any other whale's.

    Hinge of (squared distance to the own centroid) - (to the nearest rival centroid) + margin,
    averaged over the photographs of whales with two or more photographs in the batch: for a whale
    seen once the centroid is the photograph itself, so it only serves as a rival.

    embeddings : (photos, dim), labels : (photos,) long in [0, whales), at least two whales.
    """

    @staticmethod
    def forward(ctx, embeddings, labels, settings=CentroidSettings()):
        _, who = torch.unique(labels, return_inverse=True)
        own = F.one_hot(who).to(embeddings.dtype)                  # photos, whales of the batch
        size = own.sum(0)
        centre = own.t() @ embeddings / size[:, None]
        sq = ((embeddings[:, None] - centre[None]) ** 2).sum(-1)
        near, rival = sq.masked_fill(own.bool(), float("inf")).min(1)
        repeated = size[who] > 1
        gap = (sq * own).sum(1) - near + settings.margin
        active = repeated & (gap > 0)
        ctx.save_for_backward(embeddings, centre, own, size, rival, active)
        return (gap * active).sum() / repeated.sum().clamp(min=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        embeddings, centre, own, size, rival, active = ctx.saved_tensors
        side = own - F.one_hot(rival, own.shape[1]).to(own.dtype)
        weight = 2 * grad * side * active[:, None] / len(embeddings)
        diff = embeddings[:, None] - centre[None]
        flow = weight[..., None] * diff
        g_centre = -flow.sum(0)
        return flow.sum(1) + own @ (g_centre / size[:, None]), None, None


class PartTableBlend(Function):
    """Blend the parts of a photograph with those of its mirror image into one unit vector.

    Parameters
    ----------
    parts, mirrored : (B, K, D) part features of the photograph and of its mirror image.
    gate : (B, K) logit of trusting the photograph's own part.
    table : (B, K) integers; entry k names the part of the mirror image that stands for part k. A part
        may stand in for several (a hidden tip borrows its neighbour's), and -1 means that none does:
        the mirror image then adds nothing to that part.

    Returns
    -------
    (B, K * D) descriptor of unit length.
    """

    @staticmethod
    def forward(ctx, parts, mirrored, gate, table):
        s = torch.sigmoid(gate)[..., None]
        there = (table >= 0)[..., None]
        index = table.clamp(min=0)[..., None].expand_as(parts)
        borrowed = mirrored.gather(1, index) * there
        mixed = (s * parts + (1 - s) * borrowed).flatten(1)
        length = mixed.norm(dim=1, keepdim=True)
        unit = mixed / length
        ctx.save_for_backward(parts, borrowed, s, index, there, unit, length)
        return unit

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        parts, borrowed, s, index, there, unit, length = ctx.saved_tensors
        g = ((g - unit * (g * unit).sum(1, keepdim=True)) / length).view_as(parts)
        g_mirror = torch.zeros_like(parts).scatter_add_(1, index, (1 - s) * g * there)
        g_gate = (g * (parts - borrowed)).sum(-1, keepdim=True) * s * (1 - s)
        return s * g, g_mirror, g_gate[..., 0], None


class PartVisibilityDistance(Function):
    """Distance of query and gallery photographs, part by part.

    Each photograph has K parts (left tip, right tip, notch, ...), each with a feature vector and a
    soft visibility in [0, 1].  A part counts as far as both photographs show it:

        d[q, g] = sum_k v_qk v_gk |q_k - g_k| / (sum_k v_qk v_gk + eps)

    Two copies of one photograph have distance zero, where the norm's slope is taken as zero.
    Shapes: query (Q, K, D), gallery (G, K, D), v_query (Q, K), v_gallery (G, K) -> (Q, G).
    """

    @staticmethod
    def forward(ctx, query, gallery, v_query, v_gallery, eps=1e-3):
        diff = query[:, None] - gallery[None]
        dist = diff.norm(dim=-1)
        both = v_query[:, None] * v_gallery[None]
        mass = both.sum(-1) + eps
        out = (both * dist).sum(-1) / mass
        ctx.save_for_backward(diff, dist, v_query, v_gallery, mass, out)
        return out

    @staticmethod
    def backward(ctx, g):
        diff, dist, vq, vg, mass, out = ctx.saved_tensors
        gm = (g / mass)[..., None]
        g_dist = gm * vq[:, None] * vg[None]
        g_both = gm * (dist - out[..., None])
        safe = torch.where(dist > 0, dist, torch.ones_like(dist))
        g_diff = (g_dist / safe)[..., None] * diff
        return (g_diff.sum(1), -g_diff.sum(0),
                (g_both * vg[None]).sum(1), (g_both * vq[:, None]).sum(0), None)


def rank_gallery(query, gallery, v_query, v_gallery):
    """Gallery indices, nearest first."""
    return PartVisibilityDistance.apply(query, gallery, v_query, v_gallery).argsort(1)
