import torch
import triton
import triton.language as tl


@triton.jit
def _ln_fwd(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    xc = tl.where(mask, x - mean, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(xc * xc, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    b = tl.load(b_ptr + cols, mask=mask, other=0.0)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + cols, xc * rstd * w + b, mask=mask)


@triton.jit
def _ln_bwd(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr, M, N,
            ROWS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    dw = tl.zeros([BLOCK], tl.float32)
    db = tl.zeros([BLOCK], tl.float32)
    for i in range(0, ROWS):
        row = pid * ROWS + i
        live = mask & (row < M)
        x = tl.load(x_ptr + row * N + cols, mask=live, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=live, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + row, mask=row < M, other=0.0)
        rstd = tl.load(rstd_ptr + row, mask=row < M, other=0.0)
        xhat = (x - mean) * rstd
        wdy = w * dy
        c1 = tl.sum(xhat * wdy, axis=0) / N
        c2 = tl.sum(wdy, axis=0) / N
        tl.store(dx_ptr + row * N + cols, (wdy - xhat * c1 - c2) * rstd, mask=live)
        dw += dy * xhat
        db += dy
    tl.store(dw_ptr + pid * N + cols, dw, mask=mask)
    tl.store(db_ptr + pid * N + cols, db, mask=mask)


class LayerNormFunction(torch.autograd.Function):
    """Affine layer norm over the last axis; weight gradients go through per-program partial sums."""

    @staticmethod
    def forward(ctx, x, weight, bias, eps=1e-5):
        N = x.shape[-1]
        x2 = x.contiguous().view(-1, N)
        M = x2.shape[0]
        y = torch.empty_like(x2)
        mean = torch.empty(M, dtype=torch.float32, device=x.device)
        rstd = torch.empty(M, dtype=torch.float32, device=x.device)
        BLOCK = triton.next_power_of_2(N)
        _ln_fwd[(M,)](x2, weight, bias, y, mean, rstd, N, eps, BLOCK=BLOCK)
        ctx.save_for_backward(x2, weight, mean, rstd)
        ctx.BLOCK = BLOCK
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x2, weight, mean, rstd = ctx.saved_tensors
        M, N = x2.shape
        shape = dy.shape
        dy = dy.contiguous()
        rows = triton.cdiv(M, 16)
        progs = triton.cdiv(M, rows)
        dx = torch.empty_like(x2)
        dw = torch.empty((progs, N), dtype=torch.float32, device=x2.device)
        db = torch.empty((progs, N), dtype=torch.float32, device=x2.device)
        _ln_bwd[(progs,)](dy, x2, weight, mean, rstd, dx, dw, db, M, N, ROWS=rows, BLOCK=ctx.BLOCK)
        return dx.view(shape), dw.sum(0).to(weight.dtype), db.sum(0).to(weight.dtype), None


@triton.jit
def _rms_fwd(x_ptr, w_ptr, y_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
    rstd = 1.0 / tl.sqrt(tl.sum(x * x, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + cols, x * rstd * w, mask=mask)


@triton.jit
def _rms_bwd(dy_ptr, x_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, N, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    dw = tl.zeros([BLOCK], tl.float32)
    for i in range(0, ROWS):
        row = pid * ROWS + i
        x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0).to(tl.float32)
        rstd = tl.load(rstd_ptr + row)
        xhat = x * rstd
        wdy = w * dy
        c = tl.sum(xhat * wdy, axis=0) / N
        tl.store(dx_ptr + row * N + cols, (wdy - xhat * c) * rstd, mask=mask)
        dw += dy * xhat
    tl.store(dw_ptr + pid * N + cols, dw, mask=mask)


class RMSNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, eps=1e-6):
        N = x.shape[-1]
        x2 = x.contiguous().view(-1, N)
        M = x2.shape[0]
        y = torch.empty_like(x2)
        rstd = torch.empty(M, dtype=torch.float32, device=x.device)
        BLOCK = triton.next_power_of_2(N)
        _rms_fwd[(M,)](x2, weight, y, rstd, N, eps, BLOCK=BLOCK)
        ctx.save_for_backward(x2, weight, rstd)
        ctx.BLOCK = BLOCK
        return y.view(x.shape)

    @staticmethod
    def backward(ctx, dy):
        x2, weight, rstd = ctx.saved_tensors
        M, N = x2.shape
        shape = dy.shape
        dy = dy.contiguous()
        progs = min(M, 8)
        rows_per_prog = M // progs
        dx = torch.empty_like(x2)
        dw = torch.empty((progs, N), dtype=torch.float32, device=x2.device)
        _rms_bwd[(progs,)](dy, x2, weight, rstd, dx, dw, N, ROWS=rows_per_prog, BLOCK=ctx.BLOCK)
        return dx.view(shape), dw.sum(0).to(weight.dtype), None


@triton.jit
def _gn_fwd(x_ptr, w_ptr, b_ptr, y_ptr, mean_ptr, rstd_ptr, eps,
            G: tl.constexpr, CG: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    g = pid % G
    size = CG * S
    x_ptr += pid * size
    y_ptr += pid * size
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, CG * S, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        acc += tl.load(x_ptr + offs, mask=offs < size, other=0.0)
    mean = tl.sum(acc, axis=0) / size
    acc = tl.zeros([BLOCK], tl.float32)
    for start in range(0, CG * S, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        d = tl.load(x_ptr + offs, mask=offs < size, other=0.0) - mean
        acc += tl.where(offs < size, d * d, 0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(acc, axis=0) / size + eps)
    tl.store(mean_ptr + pid, mean)
    tl.store(rstd_ptr + pid, rstd)
    for start in range(0, CG * S, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        c = g * CG + offs // S
        x = tl.load(x_ptr + offs, mask=mask, other=0.0)
        w = tl.load(w_ptr + c, mask=mask, other=0.0)
        b = tl.load(b_ptr + c, mask=mask, other=0.0)
        tl.store(y_ptr + offs, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _gn_bwd(dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, dx_ptr, dw_ptr, db_ptr,
            G: tl.constexpr, CG: tl.constexpr, S: tl.constexpr, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    g = pid % G
    size = CG * S
    base = pid * size
    mean = tl.load(mean_ptr + pid)
    rstd = tl.load(rstd_ptr + pid)
    c1 = 0.0
    c2 = 0.0
    for c in range(0, CG):
        aw = tl.zeros([BLOCK], tl.float32)
        ab = tl.zeros([BLOCK], tl.float32)
        for start in range(0, S, BLOCK):
            s = start + tl.arange(0, BLOCK)
            x = tl.load(x_ptr + base + c * S + s, mask=s < S, other=0.0)
            dy = tl.load(dy_ptr + base + c * S + s, mask=s < S, other=0.0)
            aw += dy * (x - mean) * rstd
            ab += dy
        dw = tl.sum(aw, axis=0)
        db = tl.sum(ab, axis=0)
        ch = g * CG + c
        w = tl.load(w_ptr + ch)
        c1 += w * dw
        c2 += w * db
        tl.atomic_add(dw_ptr + ch, dw)
        tl.atomic_add(db_ptr + ch, db)
    c1 = c1 / size
    c2 = c2 / size
    for start in range(0, CG * S, BLOCK):
        offs = start + tl.arange(0, BLOCK)
        mask = offs < size
        x = tl.load(x_ptr + base + offs, mask=mask, other=0.0)
        dy = tl.load(dy_ptr + base + offs, mask=mask, other=0.0)
        w = tl.load(w_ptr + g * CG + offs // S, mask=mask, other=0.0)
        xhat = (x - mean) * rstd
        tl.store(dx_ptr + base + offs, (w * dy - xhat * c1 - c2) * rstd, mask=mask)


class GroupNormFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, num_groups, weight, bias, eps=1e-5):
        B, C = x.shape[:2]
        x = x.contiguous()
        S = x.numel() // (B * C)
        CG = C // num_groups
        y = torch.empty_like(x)
        mean = torch.empty(B * num_groups, dtype=torch.float32, device=x.device)
        rstd = torch.empty_like(mean)
        _gn_fwd[(B * num_groups,)](x, weight, bias, y, mean, rstd, eps, G=num_groups, CG=CG, S=S, BLOCK=128)
        ctx.save_for_backward(x, weight, mean, rstd)
        ctx.dims = (B, num_groups, CG, S)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, mean, rstd = ctx.saved_tensors
        B, G, CG, S = ctx.dims
        dx = torch.empty_like(x)
        dw = torch.zeros(G * CG, dtype=torch.float32, device=x.device)
        db = torch.zeros(G * CG, dtype=torch.float32, device=x.device)
        _gn_bwd[(B * G,)](dy.contiguous(), x, weight, mean, rstd, dx, dw, db, G=G, CG=CG, S=S, BLOCK=128)
        return dx, None, dw.to(weight.dtype), db.to(weight.dtype), None


@triton.jit
def _add_rms_fwd(x_ptr, r_ptr, w_ptr, y_ptr, s_ptr, rstd_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    s = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0) + tl.load(r_ptr + row * N + cols, mask=mask, other=0.0)
    rstd = 1.0 / tl.sqrt(tl.sum(s * s, axis=0) / N + eps)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    tl.store(s_ptr + row * N + cols, s, mask=mask)
    tl.store(rstd_ptr + row, rstd)
    tl.store(y_ptr + row * N + cols, s * rstd * w, mask=mask)


@triton.jit
def _add_rms_bwd(dy_ptr, ds_ptr, s_ptr, w_ptr, rstd_ptr, dx_ptr, dw_ptr, N, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    dy = tl.load(dy_ptr + row * N + cols, mask=mask, other=0.0)
    ds = tl.load(ds_ptr + row * N + cols, mask=mask, other=0.0)
    s = tl.load(s_ptr + row * N + cols, mask=mask, other=0.0)
    w = tl.load(w_ptr + cols, mask=mask, other=0.0)
    rstd = tl.load(rstd_ptr + row)
    xhat = s * rstd
    wdy = w * dy
    c = tl.sum(xhat * wdy, axis=0) / N
    tl.store(dx_ptr + row * N + cols, (wdy - xhat * c) * rstd + ds, mask=mask)
    tl.atomic_add(dw_ptr + cols, dy * xhat, mask=mask)


class FusedAddRMSNorm(torch.autograd.Function):
    """(rms_norm(x + residual) * weight, x + residual)"""

    @staticmethod
    def forward(ctx, x, residual, weight, eps=1e-6):
        N = x.shape[-1]
        x, residual = x.contiguous(), residual.contiguous()
        M = x.numel() // N
        y, s = torch.empty_like(x), torch.empty_like(x)
        rstd = torch.empty(M, dtype=torch.float32, device=x.device)
        BLOCK = triton.next_power_of_2(N)
        _add_rms_fwd[(M,)](x, residual, weight, y, s, rstd, N, eps, BLOCK=BLOCK)
        ctx.save_for_backward(s, weight, rstd)
        ctx.BLOCK = BLOCK
        return y, s

    @staticmethod
    def backward(ctx, dy, ds):
        s, weight, rstd = ctx.saved_tensors
        N = s.shape[-1]
        M = s.numel() // N
        dx = torch.empty_like(s)
        dw = torch.zeros(N, dtype=torch.float32, device=s.device)
        _add_rms_bwd[(M,)](dy.contiguous(), ds.contiguous(), s, weight, rstd, dx, dw, N, BLOCK=ctx.BLOCK)
        return dx, dx, dw.to(weight.dtype), None
