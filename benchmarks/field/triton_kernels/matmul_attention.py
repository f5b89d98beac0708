import math

import torch
import triton
import triton.language as tl


@triton.jit
def _bmm_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K: tl.constexpr, alpha,
    sab, sam, sak, sbb, sbk, sbn, scb, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):
    batch = tl.program_id(1)
    pid = tl.program_id(0)
    n_blocks = tl.cdiv(N, BN)
    rm = (pid // n_blocks) * BM + tl.arange(0, BM)
    rn = (pid % n_blocks) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        a = tl.load(
            a_ptr + batch * sab + rm[:, None] * sam + rk[None, :] * sak,
            mask=(rm[:, None] < M) & (rk[None, :] < K), other=0.0,
        )
        b = tl.load(
            b_ptr + batch * sbb + rk[:, None] * sbk + rn[None, :] * sbn,
            mask=(rk[:, None] < K) & (rn[None, :] < N), other=0.0,
        )
        acc += tl.dot(a, b, input_precision="ieee")
    acc = acc * alpha
    tl.store(
        c_ptr + batch * scb + rm[:, None] * scm + rn[None, :] * scn, acc,
        mask=(rm[:, None] < M) & (rn[None, :] < N),
    )


def _bmm(a, b, alpha=1.0):
    B, M, K = a.shape
    N = b.shape[2]
    c = torch.empty((B, M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 32) * triton.cdiv(N, 32), B)
    _bmm_kernel[grid](a, b, c, M, N, K, alpha, *a.stride(), *b.stride(), *c.stride(), BM=32, BN=32, BK=16)
    return c


class ScaledBMM(torch.autograd.Function):
    """alpha * (a @ b) for batched operands of any strides."""

    @staticmethod
    def forward(ctx, a, b, alpha):
        ctx.save_for_backward(a, b)
        ctx.alpha = alpha
        return _bmm(a, b, alpha)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        da = db = None
        if ctx.needs_input_grad[0]:
            da = _bmm(g, b.transpose(1, 2), ctx.alpha)
        if ctx.needs_input_grad[1]:
            db = _bmm(a.transpose(1, 2), g, ctx.alpha)
        return da, db, None


@triton.jit
def _linear_fwd(x_ptr, w_ptr, b_ptr, z_ptr, y_ptr, M, N, K: tl.constexpr, SILU: tl.constexpr,
                BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros([BM, BN], tl.float32)
    am = rm % M
    an = rn % N
    for k0 in range(0, K, BK):
        rk = k0 + tl.arange(0, BK)
        x = tl.load(x_ptr + am[:, None] * K + rk[None, :], mask=rk[None, :] < K, other=0.0)
        w = tl.load(w_ptr + an[None, :] * K + rk[:, None], mask=rk[:, None] < K, other=0.0)
        acc += tl.dot(x, w, input_precision="ieee")
    z = acc + tl.load(b_ptr + an)[None, :]
    if SILU:
        y = z * tl.sigmoid(z)
    else:
        y = tl.maximum(z, 0.0)
    offs = rm[:, None] * N + rn[None, :]
    mask = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(z_ptr + offs, z, mask=mask)
    tl.store(y_ptr + offs, y, mask=mask)


@triton.jit
def _act_bwd(g_ptr, z_ptr, dz_ptr, n, SILU: tl.constexpr, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    g = tl.load(g_ptr + offs, mask=mask, other=0.0)
    z = tl.load(z_ptr + offs, mask=mask, other=0.0)
    if SILU:
        s = tl.sigmoid(z)
        dz = g * s * (1.0 + z * (1.0 - s))
    else:
        dz = tl.where(z > 0.0, g, 0.0)
    tl.store(dz_ptr + offs, dz, mask=mask)


@triton.jit
def _linear_bwd_x(dz_ptr, w_ptr, dx_ptr, M, N: tl.constexpr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rk = tl.program_id(1) * BK + tl.arange(0, BK)
    am = rm % M
    ak = rk % K
    acc = tl.zeros([BM, BK], tl.float32)
    for n0 in range(0, N, BN):
        rn = n0 + tl.arange(0, BN)
        dz = tl.load(dz_ptr + am[:, None] * N + rn[None, :], mask=rn[None, :] < N, other=0.0)
        w = tl.load(w_ptr + rn[:, None] * K + ak[None, :], mask=rn[:, None] < N, other=0.0)
        acc += tl.dot(dz, w, input_precision="ieee")
    tl.store(dx_ptr + rm[:, None] * K + rk[None, :], acc, mask=(rm[:, None] < M) & (rk[None, :] < K))


@triton.jit
def _linear_bwd_w(dz_ptr, x_ptr, dw_ptr, db_ptr, M: tl.constexpr, N, K,
                  BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    pid_k = tl.program_id(1)
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rk = pid_k * BK + tl.arange(0, BK)
    an = rn % N
    ak = rk % K
    acc = tl.zeros([BN, BK], tl.float32)
    db = tl.zeros([BN], tl.float32)
    for m0 in range(0, M, BM):
        am = (m0 + tl.arange(0, BM)) % M
        dz = tl.load(dz_ptr + am[None, :] * N + an[:, None])
        x = tl.load(x_ptr + am[:, None] * K + ak[None, :])
        acc += tl.dot(dz, x, input_precision="ieee")
        db += tl.sum(dz, axis=1)
    tl.store(dw_ptr + rn[:, None] * K + rk[None, :], acc, mask=(rn[:, None] < N) & (rk[None, :] < K))
    if pid_k == 0:
        tl.store(db_ptr + rn, db, mask=rn < N)


class FusedLinearAct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, activation="relu"):
        N, K = weight.shape
        x2 = x.contiguous().view(-1, K)
        weight = weight.contiguous()
        M = x2.shape[0]
        z = torch.empty((M, N), dtype=x.dtype, device=x.device)
        y = torch.empty_like(z)
        silu = activation == "silu"
        _linear_fwd[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            x2, weight, bias, z, y, M, N, K, SILU=silu, BM=32, BN=32, BK=32
        )
        ctx.save_for_backward(x2, weight, z)
        ctx.silu = silu
        ctx.x_shape = x.shape
        return y.view(*x.shape[:-1], N)

    @staticmethod
    def backward(ctx, g):
        x2, weight, z = ctx.saved_tensors
        M, K = x2.shape
        N = weight.shape[0]
        g = g.contiguous()
        dz = torch.empty_like(z)
        _act_bwd[(triton.cdiv(M * N, 1024),)](g, z, dz, M * N, SILU=ctx.silu, BLOCK=1024)
        dx = torch.empty_like(x2)
        dw = torch.empty_like(weight)
        db = torch.empty(N, dtype=weight.dtype, device=weight.device)
        _linear_bwd_x[(triton.cdiv(M, 32), triton.cdiv(K, 32))](dz, weight, dx, M, N, K, BM=32, BN=32, BK=32)
        _linear_bwd_w[(triton.cdiv(N, 32), triton.cdiv(K, 32))](dz, x2, dw, db, M, N, K, BM=32, BN=32, BK=32)
        return dx.view(ctx.x_shape), dw, db, None


@triton.jit
def _attn_fwd(q_ptr, k_ptr, v_ptr, o_ptr, lse_ptr, T: tl.constexpr, D, scale,
              CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(1)
    base = bh * T * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, BD)
    dmask = rd[None, :] < D
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=(rm[:, None] < T) & dmask, other=0.0)
    m = tl.full([BM], -1.0e30, tl.float32)
    l = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, BD], tl.float32)
    for n0 in range(0, T, BN):
        rn = n0 + tl.arange(0, BN)
        kv_mask = (rn[:, None] < T) & dmask
        k = tl.load(k_ptr + base + rn[:, None] * D + rd[None, :], mask=kv_mask, other=0.0)
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=kv_mask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        keep = rn[None, :] < T
        if CAUSAL:
            keep = keep & (rm[:, None] >= rn[None, :])
        s = tl.where(keep, s, -1.0e30)
        m_new = tl.maximum(m, tl.max(s, axis=1))
        p = tl.where(keep, tl.exp(s - m_new[:, None]), 0.0)
        alpha = tl.exp(m - m_new)
        l = l * alpha + tl.sum(p, axis=1)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m = m_new
    acc = acc / l[:, None]
    tl.store(o_ptr + base + rm[:, None] * D + rd[None, :], acc, mask=(rm[:, None] < T) & dmask)
    tl.store(lse_ptr + bh * T + rm, m + tl.log(l), mask=rm < T)


@triton.jit
def _attn_bwd_delta(o_ptr, do_ptr, delta_ptr, R, D, BM: tl.constexpr, BD: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, BD)
    mask = (rm[:, None] < R) & (rd[None, :] < D)
    o = tl.load(o_ptr + rm[:, None] * D + rd[None, :], mask=mask, other=0.0)
    do = tl.load(do_ptr + rm[:, None] * D + rd[None, :], mask=mask, other=0.0)
    tl.store(delta_ptr + rm, tl.sum(o * do, axis=1), mask=rm < R)


@triton.jit
def _attn_bwd_dq(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dq_ptr, T: tl.constexpr, D, scale,
                 CAUSAL: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(1)
    base = bh * T * D
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rd = tl.arange(0, BD)
    dmask = rd[None, :] < D
    qmask = (rm[:, None] < T) & dmask
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=qmask, other=0.0)
    do = tl.load(do_ptr + base + rm[:, None] * D + rd[None, :], mask=qmask, other=0.0)
    lse = tl.load(lse_ptr + bh * T + rm, mask=rm < T, other=0.0)
    delta = tl.load(delta_ptr + bh * T + rm, mask=rm < T, other=0.0)
    dq = tl.zeros([BM, BD], tl.float32)
    for n0 in range(0, T, BN):
        rn = n0 + tl.arange(0, BN)
        kmask = (rn[:, None] < T) & dmask
        k = tl.load(k_ptr + base + rn[:, None] * D + rd[None, :], mask=kmask, other=0.0)
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=kmask, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        keep = rn[None, :] < T
        if CAUSAL:
            keep = keep & (rm[:, None] >= rn[None, :])
        p = tl.where(keep, tl.exp(s - lse[:, None]), 0.0)
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dq += tl.dot(ds, k, input_precision="ieee")
    tl.store(dq_ptr + base + rm[:, None] * D + rd[None, :], dq, mask=qmask)


@triton.jit
def _attn_bwd_dkdv(q_ptr, k_ptr, v_ptr, do_ptr, lse_ptr, delta_ptr, dk_ptr, dv_ptr,
                   T: tl.constexpr, D, scale,
                   BM: tl.constexpr, BN: tl.constexpr, BD: tl.constexpr):
    bh = tl.program_id(1)
    base = bh * T * D
    rn = tl.program_id(0) * BN + tl.arange(0, BN)
    rd = tl.arange(0, BD)
    dmask = rd[None, :] < D
    kmask = (rn[:, None] < T) & dmask
    k = tl.load(k_ptr + base + rn[:, None] * D + rd[None, :], mask=kmask, other=0.0)
    v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=kmask, other=0.0)
    dk = tl.zeros([BN, BD], tl.float32)
    dv = tl.zeros([BN, BD], tl.float32)
    for m0 in range(0, T, BM):
        rm = m0 + tl.arange(0, BM)
        qmask = (rm[:, None] < T) & dmask
        q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=qmask, other=0.0)
        do = tl.load(do_ptr + base + rm[:, None] * D + rd[None, :], mask=qmask, other=0.0)
        lse = tl.load(lse_ptr + bh * T + rm, mask=rm < T, other=0.0)
        delta = tl.load(delta_ptr + bh * T + rm, mask=rm < T, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        keep = (rm[:, None] < T) & (rn[None, :] < T)
        p = tl.where(keep, tl.exp(s - lse[:, None]), 0.0)
        dv += tl.dot(tl.trans(p), do, input_precision="ieee")
        dp = tl.dot(do, tl.trans(v), input_precision="ieee")
        ds = p * (dp - delta[:, None]) * scale
        dk += tl.dot(tl.trans(ds), q, input_precision="ieee")
    tl.store(dk_ptr + base + rn[:, None] * D + rd[None, :], dk, mask=kmask)
    tl.store(dv_ptr + base + rn[:, None] * D + rd[None, :], dv, mask=kmask)


class FlashAttention(torch.autograd.Function):
    """Self attention over [B, H, T, D], tiled, with an optional causal mask.

    ``scale`` defaults to 1 / sqrt(D).
    """

    @staticmethod
    def forward(ctx, q, k, v, causal=False, scale=None):
        B, H, T, D = q.shape
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        if scale is None:
            scale = 1.0 / math.sqrt(D)
        o = torch.empty_like(q)
        lse = torch.empty((B, H, T), dtype=torch.float32, device=q.device)
        BD = max(16, triton.next_power_of_2(D))
        _attn_fwd[(triton.cdiv(T, 32), B * H)](q, k, v, o, lse, T, D, scale, CAUSAL=causal, BM=32, BN=32, BD=BD)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.causal, ctx.scale, ctx.BD = causal, scale, BD
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        B, H, T, D = q.shape
        do = do.contiguous()
        delta = torch.empty_like(lse)
        _attn_bwd_delta[(triton.cdiv(B * H * T, 32),)](o, do, delta, B * H * T, D, BM=32, BD=ctx.BD)
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        grid = (triton.cdiv(T, 32), B * H)
        _attn_bwd_dq[grid](q, k, v, do, lse, delta, dq, T, D, ctx.scale, CAUSAL=ctx.causal, BM=32, BN=32, BD=ctx.BD)
        _attn_bwd_dkdv[grid](q, k, v, do, lse, delta, dk, dv, T, D, ctx.scale, BM=32, BN=32, BD=ctx.BD)
        return dq, dk, dv, None, None


@triton.jit
def _rope_kernel(x_ptr, cos_ptr, sin_ptr, y_ptr, S, H, HALF, sxb, sxs, sxh, sxd,
                 INVERSE: tl.constexpr, BH: tl.constexpr, BD: tl.constexpr):
    tok = tl.program_id(0)
    b = tok // S
    s = tok % S
    h = tl.program_id(1) * BH + tl.arange(0, BH)
    d = tl.arange(0, BD)
    mask = (h[:, None] < H) & (d[None, :] < HALF)
    cos = tl.load(cos_ptr + s * HALF + d, mask=d < HALF, other=0.0)[None, :]
    sin = tl.load(sin_ptr + s * HALF + d, mask=d < HALF, other=0.0)[None, :]
    if INVERSE:
        sin = -sin
    src = x_ptr + b * sxb + s * sxs + h[:, None] * sxh
    x1 = tl.load(src + d[None, :] * sxd, mask=mask, other=0.0)
    x2 = tl.load(src + (d[None, :] + HALF) * sxd, mask=mask, other=0.0)
    dst = y_ptr + (tok * H + h[:, None]) * (2 * HALF) + d[None, :]
    tl.store(dst, x1 * cos - x2 * sin, mask=mask)
    tl.store(dst + HALF, x2 * cos + x1 * sin, mask=mask)


def _rope(x, cos, sin, inverse):
    B, S, H, D = x.shape
    y = torch.empty((B, S, H, D), dtype=x.dtype, device=x.device)
    BD = triton.next_power_of_2(D // 2)
    _rope_kernel[(B * S, triton.cdiv(H, 4))](
        x, cos, sin, y, S, H, D // 2, *x.stride(), INVERSE=inverse, BH=4, BD=BD
    )
    return y


class RotaryEmbedding(torch.autograd.Function):
    # x: [B, S, H, D], cos / sin: [S, D // 2]
    @staticmethod
    def forward(ctx, x, cos, sin):
        cos, sin = cos.contiguous(), sin.contiguous()
        ctx.save_for_backward(cos, sin)
        return _rope(x, cos, sin, False)

    @staticmethod
    def backward(ctx, g):
        cos, sin = ctx.saved_tensors
        return _rope(g, cos, sin, True), None, None
