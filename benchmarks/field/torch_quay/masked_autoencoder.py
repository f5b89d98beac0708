# Pre-training parts for a masked image autoencoder with a feature teacher.
import torch
import torch.nn as nn
import torch.nn.functional as F


def patchify(imgs: torch.Tensor, p: int) -> torch.Tensor:
    b, c, h, w = imgs.shape
    x = imgs.reshape(b, c, h // p, p, w // p, p)
    return torch.einsum("nchpwq->nhwpqc", x).reshape(b, (h // p) * (w // p), p * p * c)


def random_masking(x: torch.Tensor, keep: int):
    b, l, d = x.shape
    ids_shuffle = torch.rand(b, l, device=x.device).argsort(1)
    ids_restore = ids_shuffle.argsort(1)
    vis = torch.gather(x, 1, ids_shuffle[:, :keep, None].expand(-1, -1, d))
    mask = torch.ones(b, l, device=x.device)
    mask[:, :keep] = 0
    return vis, mask.gather(1, ids_restore), ids_restore


class PatchPixelLoss(torch.autograd.Function):

    @staticmethod
    def forward(
        ctx,
        pred: torch.Tensor,      # (B, L, D)
        pixels: torch.Tensor,    # (B, L, D) the image itself, a constant of the loss
        mask: torch.Tensor,      # (B, L) 1 = hidden patch; at least one per image, counts may differ
        norm_pix: bool = True,   # standardise each target patch
        per_image: bool = False, # average inside each image first, then over images
    ):
        if norm_pix:
            mu = pixels.mean(-1, keepdim=True)
            var = pixels.var(-1, keepdim=True)
            pixels = (pixels - mu) / (var + 1e-6).sqrt()
        err = pred - pixels
        per_patch = err.square().mean(-1) * mask
        ctx.save_for_backward(err, mask)
        if per_image:
            return (per_patch.sum(1) / mask.sum(1)).mean()
        return per_patch.sum() / mask.sum()

    @staticmethod
    def backward(ctx, g):
        err, mask = ctx.saved_tensors
        scale = 2.0 * g / (err.shape[-1] * mask.sum())
        return scale * err * mask.unsqueeze(-1), None, None, None, None


class UnshuffleTokens(torch.autograd.Function):

    @staticmethod
    def forward(
        ctx,
        vis,          # (B, V, D) encoded visible tokens, in shuffled order
        mask_token,   # (1, 1, D)
        ids_restore,  # (B, L) a permutation of range(L) per row, L >= V
    ):
        b, v, d = vis.shape
        l = ids_restore.shape[1]
        full = torch.cat([vis, mask_token.expand(b, l - v, d)], 1)
        ctx.save_for_backward(ids_restore)
        ctx.v = v
        return full.gather(1, ids_restore.unsqueeze(-1).expand(b, l, d))

    @staticmethod
    def backward(ctx, g):
        (ids,) = ctx.saved_tensors
        full = torch.empty_like(g).scatter_(1, ids.unsqueeze(-1).expand_as(g), g)
        return full[:, : ctx.v], full[:, ctx.v :].sum((0, 1), keepdim=True), None


class LayerAverageTarget(torch.autograd.Function):
    # data2vec-like target: mean over tokens and layers of instance-normed states

    @staticmethod
    def forward(
        ctx,
        hidden,   # (K, B, L, D) last K blocks of the teacher
        w,        # (K,) weight of each block
        valid,    # (B, L) bool, at least two True per row
        eps=1e-5,
    ):
        m = valid.to(hidden.dtype)[None, :, :, None]
        n = m.sum(2, keepdim=True)
        mu = (hidden * m).sum(2, keepdim=True) / n
        c = (hidden - mu) * m
        rstd = torch.rsqrt((c * c).sum(2, keepdim=True) / n + eps)
        xhat = c * rstd
        ctx.save_for_backward(xhat, rstd, w, m, n)
        return torch.einsum("k,kbld->bld", w, xhat)

    @staticmethod
    def backward(ctx, g):
        xhat, rstd, w, m, n = ctx.saved_tensors
        gw = torch.einsum("bld,kbld->k", g, xhat)
        gh = w.view(-1, 1, 1, 1) * (g * m)
        a = gh.sum(2, keepdim=True) / n
        b = (gh * xhat).sum(2, keepdim=True) / n
        return rstd * (gh - a - xhat * b) * m, gw, None, None


class KoLeo(torch.autograd.Function):
    # -mean log distance to the nearest neighbour on the sphere

    @staticmethod
    def forward(
        ctx,
        x,         # (B, D) class tokens of distinct images, not normalised
        eps=1e-8,
    ):
        norm = x.norm(dim=-1, keepdim=True)
        z = x / norm
        dots = z @ z.t()
        dots.fill_diagonal_(-2.0)
        nn_idx = dots.argmax(1)
        diff = z - z[nn_idx]
        dist = diff.norm(dim=-1, keepdim=True)
        ctx.save_for_backward(z, norm, nn_idx, diff, dist)
        ctx.eps = eps
        return -(dist + eps).log().mean()

    @staticmethod
    def backward(ctx, g):
        z, norm, nn_idx, diff, dist = ctx.saved_tensors
        u = -g / z.shape[0] * diff / (dist * (dist + ctx.eps))
        gz = u.clone()
        gz[nn_idx] -= u
        return (gz - z * (gz * z).sum(-1, keepdim=True)) / norm, None


class MiniMAE(nn.Module):
    def __init__(self, patch=4, chans=3, dim=48, tokens=64, teacher_blocks=3, per_image=False):
        super().__init__()
        self.patch, self.per_image = patch, per_image
        pd = patch * patch * chans
        self.embed = nn.Linear(pd, dim)
        self.pos = nn.Parameter(torch.randn(1, tokens, dim) * 0.02)
        self.enc = nn.ModuleList(nn.TransformerEncoderLayer(dim, 4, dim * 2, 0.0, batch_first=True) for _ in range(4))
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.dec = nn.TransformerEncoderLayer(dim, 4, dim * 2, 0.0, batch_first=True)
        self.head = nn.Linear(dim, pd)
        self.block_w = nn.Parameter(torch.full((teacher_blocks,), 1.0 / teacher_blocks))

    def teacher(self, tokens, valid):
        states = []
        for blk in self.enc:
            tokens = blk(tokens, src_key_padding_mask=~valid)
            states.append(tokens)
        return LayerAverageTarget.apply(torch.stack(states[-len(self.block_w) :]), self.block_w, valid)

    def forward(self, imgs, keep=16):
        target = patchify(imgs, self.patch)
        vis, mask, ids = random_masking(self.embed(target) + self.pos, keep)
        for blk in self.enc:
            vis = blk(vis)
        out = self.head(self.dec(UnshuffleTokens.apply(vis, self.mask_token, ids) + self.pos))
        pix = PatchPixelLoss.apply(out, target, mask, True, self.per_image)
        return pix + 0.1 * KoLeo.apply(vis.mean(1))


def feature_loss(student, teacher_out, valid):
    per = F.smooth_l1_loss(student, teacher_out, reduction="none").mean(-1)
    return (per * valid).sum() / valid.sum()
