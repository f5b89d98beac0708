"""Losses over class logits, without materialising softmax in the forward pass."""

import torch
import triton
import triton.language as tl

MAX_BLOCK = 4096


def pick_block(n, cap=MAX_BLOCK):
    return min(cap, triton.next_power_of_2(n))


@triton.jit
def _lse_row(base, n_cols, inv_t, BLOCK: tl.constexpr):
    # online log-sum-exp of base[0:n_cols] * inv_t
    m = float("-inf")
    z = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < n_cols, other=float("-inf")).to(tl.float32) * inv_t
        m_new = tl.maximum(m, tl.max(x, axis=0))
        z = z * tl.exp(m - m_new) + tl.sum(tl.exp(x - m_new), axis=0)
        m = m_new
    return m + tl.log(z)


@triton.jit
def _ce_fwd(X, sx, Y, LSE, LOSS, n_cols, ignore_index, smoothing, z_scale, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    y = tl.load(Y + row)
    if y == ignore_index:
        tl.store(LOSS + row, 0.0)
        tl.store(LSE + row, 0.0)
    else:
        base = X + row * sx
        lse = _lse_row(base, n_cols, 1.0, BLOCK)
        total = 0.0
        for start in range(0, n_cols, BLOCK):
            cols = start + tl.arange(0, BLOCK)
            total += tl.sum(
                tl.load(base + cols, mask=cols < n_cols, other=0.0).to(tl.float32), axis=0
            )
        xy = tl.load(base + y).to(tl.float32)
        tl.store(LSE + row, lse)
        tl.store(
            LOSS + row,
            lse - (1.0 - smoothing) * xy - smoothing * total / n_cols + z_scale * lse * lse,
        )


@triton.jit
def _ce_bwd(
    X,
    sx,
    Y,
    LSE,
    GO,
    NVALID,
    DX,
    sdx,
    n_cols,
    ignore_index,
    smoothing,
    z_scale,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    y = tl.load(Y + row)
    lse = tl.load(LSE + row)
    x = tl.load(X + row * sx + cols, mask=mask, other=float("-inf")).to(tl.float32)
    g = tl.exp(x - lse) * (1.0 + 2.0 * z_scale * lse) - smoothing / n_cols
    g = tl.where(cols == y, g - (1.0 - smoothing), g)
    g = g * tl.load(GO).to(tl.float32) / tl.load(NVALID)
    g = tl.where(y == ignore_index, 0.0, g)
    tl.store(DX + row * sdx + cols, g, mask=mask)


class ZLossCrossEntropy(torch.autograd.Function):
    """Mean CE over labelled rows + label smoothing + z_scale * logsumexp**2. logits (M, V), labels (M,)."""

    @staticmethod
    def forward(ctx, logits, labels, ignore_index=-100, smoothing=0.0, z_scale=0.0):
        logits, labels = logits.contiguous(), labels.contiguous()
        M, V = logits.shape
        lse = torch.empty(M, dtype=torch.float32, device=logits.device)
        loss = torch.empty_like(lse)
        n_valid = (labels != ignore_index).sum().clamp(min=1).float()
        _ce_fwd[(M,)](
            logits,
            logits.stride(0),
            labels,
            lse,
            loss,
            V,
            ignore_index,
            smoothing,
            z_scale,
            BLOCK=pick_block(V),
        )
        ctx.save_for_backward(logits, labels, lse, n_valid)
        ctx.args = (ignore_index, smoothing, z_scale)
        return (loss.sum() / n_valid).to(logits.dtype)

    @staticmethod
    def backward(ctx, go):
        logits, labels, lse, n_valid = ctx.saved_tensors
        M, V = logits.shape
        dx = torch.empty((M, V), dtype=logits.dtype, device=logits.device)
        grid = lambda meta: (M, triton.cdiv(V, meta["BLOCK"]))
        _ce_bwd[grid](
            logits,
            logits.stride(0),
            labels,
            lse,
            go.contiguous(),
            n_valid,
            dx,
            dx.stride(0),
            V,
            *ctx.args,
            BLOCK=pick_block(V, 1024),
        )
        return dx, None, None, None, None


@triton.jit
def _kl_fwd(S, ss, T, st, Y, LS, LT, LOSS, n_cols, ignore_index, inv_t, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    keep = tl.load(Y + row) != ignore_index
    ls = _lse_row(S + row * ss, n_cols, inv_t, BLOCK)
    lt = _lse_row(T + row * st, n_cols, inv_t, BLOCK)
    kl = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        logq = tl.load(S + row * ss + cols, mask=mask, other=0.0).to(tl.float32) * inv_t - ls
        logp = tl.load(T + row * st + cols, mask=mask, other=0.0).to(tl.float32) * inv_t - lt
        kl += tl.sum(tl.where(mask, tl.exp(logp) * (logp - logq), 0.0), axis=0)
    tl.store(LS + row, ls)
    tl.store(LT + row, lt)
    tl.store(LOSS + row, tl.where(keep, kl, 0.0))


@triton.jit
def _kl_bwd(
    S, ss, T, st, Y, LS, LT, GO, DS, n_rows, n_cols, ignore_index, inv_t, BLOCK: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    keep = tl.load(Y + row) != ignore_index
    scale = tl.load(GO).to(tl.float32) / (inv_t * n_rows)
    ls = tl.load(LS + row)
    lt = tl.load(LT + row)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        q = tl.exp(tl.load(S + row * ss + cols, mask=mask, other=0.0).to(tl.float32) * inv_t - ls)
        p = tl.exp(tl.load(T + row * st + cols, mask=mask, other=0.0).to(tl.float32) * inv_t - lt)
        tl.store(DS + row * n_cols + cols, tl.where(keep, (q - p) * scale, 0.0), mask=mask)


class MaskedDistillKL(torch.autograd.Function):
    """T^2 * KL(teacher || student), averaged over the tokens whose label is not ``ignore_index``.
    The teacher is frozen: no gradient is produced for it."""

    @staticmethod
    def forward(ctx, student, teacher, labels, temperature=2.0, ignore_index=-100):
        student, teacher, labels = (
            student.contiguous(),
            teacher.detach().contiguous(),
            labels.contiguous(),
        )
        M, V = student.shape
        ls = torch.empty(M, dtype=torch.float32, device=student.device)
        lt, loss = torch.empty_like(ls), torch.empty_like(ls)
        _kl_fwd[(M,)](
            student,
            student.stride(0),
            teacher,
            teacher.stride(0),
            labels,
            ls,
            lt,
            loss,
            V,
            ignore_index,
            1.0 / temperature,
            BLOCK=pick_block(V),
        )
        n_valid = (labels != ignore_index).sum().clamp(min=1)
        ctx.save_for_backward(student, teacher, labels, ls, lt)
        ctx.temperature, ctx.ignore_index = temperature, ignore_index
        return (loss.sum() * temperature**2 / n_valid).to(student.dtype)

    @staticmethod
    def backward(ctx, go):
        student, teacher, labels, ls, lt = ctx.saved_tensors
        M, V = student.shape
        ds = torch.empty((M, V), dtype=student.dtype, device=student.device)
        _kl_bwd[(M,)](
            student,
            student.stride(0),
            teacher,
            teacher.stride(0),
            labels,
            ls,
            lt,
            go.contiguous(),
            ds,
            M,
            V,
            ctx.ignore_index,
            1.0 / ctx.temperature,
            BLOCK=pick_block(V),
        )
        return ds, None, None, None, None


@triton.jit
def _focal(X, Y, GO, OUT, n_cols, numel, alpha, gamma, BACKWARD: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < numel
    x = tl.load(X + offs, mask=mask, other=0.0).to(tl.float32)
    y = tl.load(Y + offs // n_cols, mask=mask, other=-1)
    pos = y == (offs % n_cols)
    sp = tl.log(1.0 + tl.exp(-tl.abs(x)))
    logp = tl.minimum(x, 0.0) - sp
    log1mp = -tl.maximum(x, 0.0) - sp
    p = tl.exp(logp)
    q = tl.exp(log1mp)
    if BACKWARD:
        go = tl.load(GO + offs, mask=mask, other=0.0).to(tl.float32)
        dpos = alpha * tl.exp(gamma * log1mp) * (gamma * p * logp - q)
        dneg = (1.0 - alpha) * tl.exp(gamma * logp) * (p - gamma * q * log1mp)
        val = go * tl.where(pos, dpos, dneg)
    else:
        val = tl.where(
            pos,
            -alpha * tl.exp(gamma * log1mp) * logp,
            (alpha - 1.0) * tl.exp(gamma * logp) * log1mp,
        )
    tl.store(OUT + offs, tl.where(y < 0, 0.0, val), mask=mask)


class SigmoidFocal(torch.autograd.Function):
    """Per-element sigmoid focal loss, (N, C) logits against (N,) integer targets.
    ``target == C`` is background; negative targets are ignored anchors."""

    @staticmethod
    def forward(ctx, logits, target, alpha=0.25, gamma=2.0):
        x, y = logits.contiguous(), target.contiguous()
        out = torch.empty_like(x)
        ctx.save_for_backward(x, y)
        ctx.alpha, ctx.gamma = alpha, gamma
        n = x.numel()
        _focal[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
            x, y, x, out, x.shape[1], n, alpha, gamma, BACKWARD=False, BLOCK=256
        )
        return out

    @staticmethod
    def backward(ctx, go):
        x, y = ctx.saved_tensors
        dx, n = torch.empty_like(x), x.numel()
        _focal[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](
            x, y, go.contiguous(), dx, x.shape[1], n, ctx.alpha, ctx.gamma, BACKWARD=True, BLOCK=256
        )
        return dx, None, None, None


def lm_loss(logits, labels, teacher=None, kd_weight=0.5, smoothing=0.0, z_scale=1e-4):
    loss = ZLossCrossEntropy.apply(logits, labels, -100, smoothing, z_scale)
    if teacher is not None:
        loss = loss + kd_weight * MaskedDistillKL.apply(logits, teacher, labels, 2.0, -100)
    return loss


def detection_cls_loss(logits, target, alpha=0.25, gamma=2.0):
    n_pos = ((target >= 0) & (target < logits.shape[1])).sum().clamp(min=1)
    return SigmoidFocal.apply(logits, target, alpha, gamma).sum() / n_pos
