r"""
Differentiable kernels for the simulation stack.

Each operator wraps a LAPACK / FFT / time-stepping routine and supplies its adjoint by hand, so that
the tape holds one node per call and not one per inner step.
"""
import math

import torch
from torch.autograd import Function

__all__ = ["cholesky", "symeig", "leapfrog", "spherical_harmonics", "long_conv"]


def _sym(a):
    return 0.5 * (a + a.mT)


class _Cholesky(Function):
    r"""
    Lower Cholesky factor of the symmetric part of a matrix.

    Parameters
    ----------
    a : Tensor, (..., n, n)
        Its symmetric part must be positive definite.
    jitter : float
        Added to the diagonal.

    Returns
    -------
    Tensor, (..., n, n)
        ``L`` with ``L @ L.T = (a + a.T) / 2 + jitter * I``.

    Notes
    -----
    Murray (2016), *Differentiation of the Cholesky decomposition*, eq. (10).
    """

    @staticmethod
    def forward(ctx, a, jitter):
        eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        chol = torch.linalg.cholesky(_sym(a) + jitter * eye)
        ctx.save_for_backward(chol)
        return chol

    @staticmethod
    def backward(ctx, grad):
        (chol,) = ctx.saved_tensors
        phi = (chol.mT @ grad).tril()
        phi.diagonal(dim1=-2, dim2=-1).mul_(0.5)
        # L^-T phi L^-1
        s = torch.linalg.solve_triangular(chol.mT, phi, upper=True)
        s = torch.linalg.solve_triangular(chol, s, upper=False, left=False)
        return _sym(s), None


class _SymEig(Function):
    r"""
    Eigen-decomposition of the symmetric part of a matrix.

    Parameters
    ----------
    a : Tensor, (..., n, n)
        The eigenvalues of its symmetric part must be distinct if the vectors are used.

    Returns
    -------
    w : Tensor, (..., n)
        Eigenvalues, ascending.
    v : Tensor, (..., n, n)
        Orthonormal eigenvectors in columns; the sign makes the largest entry positive.
    """

    @staticmethod
    def forward(ctx, a):
        w, v = torch.linalg.eigh(_sym(a))
        big = v.abs().argmax(dim=-2, keepdim=True)
        v = v * torch.sign(v.gather(-2, big))
        ctx.save_for_backward(w, v)
        return w, v

    @staticmethod
    def backward(ctx, grad_w, grad_v):
        w, v = ctx.saved_tensors
        gap = w.unsqueeze(-1) - w.unsqueeze(-2)
        gap.diagonal(dim1=-2, dim2=-1).fill_(math.inf)
        inner = (v.mT @ grad_v) / gap
        inner = inner + torch.diag_embed(grad_w)
        return _sym(v @ inner @ v.mT)


class _Leapfrog(Function):
    r"""
    Velocity-Verlet integration of independent anharmonic oscillators.

    The force is ``-(k q + lam q^3)``.  One step is half kick, drift, half kick.

    Parameters
    ----------
    q, p : Tensor, (batch, n)
        Positions and momenta.
    k, lam : Tensor, (n,)
        Linear and cubic stiffness.
    mass : float
    dt : float
    n_steps : int

    Returns
    -------
    q, p : Tensor, (batch, n)
        State after ``n_steps``.
    """

    @staticmethod
    def forward(ctx, q, p, k, lam, mass, dt, n_steps):
        trail = [q]
        for _ in range(n_steps):
            p = p - 0.5 * dt * (k * q + lam * q ** 3)
            q = q + dt * p / mass
            p = p - 0.5 * dt * (k * q + lam * q ** 3)
            trail.append(q)
        ctx.save_for_backward(k, lam, *trail)
        ctx.mass, ctx.dt = mass, dt
        return q.clone(), p.clone()

    @staticmethod
    def backward(ctx, gq, gp):
        k, lam, *trail = ctx.saved_tensors
        half = 0.5 * ctx.dt
        gk, glam = torch.zeros_like(gq), torch.zeros_like(gq)
        for start, end in reversed(list(zip(trail[:-1], trail[1:]))):
            stiff = k + 3.0 * lam * start ** 2
            gk = gk - half * end * gp
            glam = glam - half * end ** 3 * gp
            gq = gq - half * stiff * gp
            gp = gp + ctx.dt / ctx.mass * gq
            gk = gk - half * start * gp
            glam = glam - half * start ** 3 * gp
            gq = gq - half * stiff * gp
        return gq, gp, gk.sum(0), glam.sum(0), None, None, None


_C0 = 0.5 / math.sqrt(math.pi)
_C1 = math.sqrt(3.0 / (4.0 * math.pi))
_C2 = math.sqrt(15.0 / (4.0 * math.pi))
_C20 = math.sqrt(5.0 / (16.0 * math.pi))


class _RealSH(Function):
    r"""
    Real (solid) spherical harmonics up to ``lmax <= 2``.

    Parameters
    ----------
    vec : Tensor, (..., 3)
        Displacements, not zero if ``normalize``.
    lmax : {0, 1, 2}
    normalize : bool
        Evaluate at ``vec / |vec|``; otherwise the homogeneous polynomials of ``vec``.

    Returns
    -------
    Tensor, (..., (lmax + 1) ** 2)
        Order ``m = -l .. l`` within each ``l``.
    """

    @staticmethod
    def forward(vec, lmax, normalize):
        if normalize:
            vec = vec / vec.norm(dim=-1, keepdim=True)
        x, y, z = vec.unbind(-1)
        out = [torch.full_like(x, _C0)]
        if lmax >= 1:
            out += [_C1 * y, _C1 * z, _C1 * x]
        if lmax >= 2:
            out += [_C2 * x * y, _C2 * y * z, _C20 * (2 * z * z - x * x - y * y), _C2 * x * z,
                    0.5 * _C2 * (x * x - y * y)]
        return torch.stack(out, dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        vec, ctx.lmax, ctx.normalize = inputs
        ctx.save_for_backward(vec)

    @staticmethod
    def backward(ctx, grad):
        (vec,) = ctx.saved_tensors
        r = vec.norm(dim=-1, keepdim=True)
        u = vec / r if ctx.normalize else vec
        x, y, z = u.unbind(-1)
        gx, gy, gz = torch.zeros_like(x), torch.zeros_like(x), torch.zeros_like(x)
        if ctx.lmax >= 1:
            g = grad[..., 1:4]
            gy, gz, gx = _C1 * g[..., 0], _C1 * g[..., 1], _C1 * g[..., 2]
        if ctx.lmax >= 2:
            xy, yz, zz, xz, xxyy = grad[..., 4:9].unbind(-1)
            gx = gx + _C2 * (y * xy + z * xz + x * xxyy) - 2 * _C20 * x * zz
            gy = gy + _C2 * (x * xy + z * yz - y * xxyy) - 2 * _C20 * y * zz
            gz = gz + _C2 * (y * yz + x * xz) + 4 * _C20 * z * zz
        gu = torch.stack([gx, gy, gz], dim=-1)
        if ctx.normalize:
            gu = (gu - u * (u * gu).sum(-1, keepdim=True)) / r
        return gu, None, None


class _LongConv(Function):
    r"""
    Causal convolution with a kernel as long as the signal, by FFT, plus a skip.

    .. math:: y_t = \sum_{s \le t} k_s x_{t-s} + d \, x_t

    Parameters
    ----------
    x : Tensor, (batch, h, length)
    kernel : Tensor, (h, taps)
        ``taps <= length``.
    skip : Tensor, (h,)
    """

    @staticmethod
    def forward(ctx, x, kernel, skip):
        length = x.shape[-1]
        n = 2 * length
        y = torch.fft.irfft(torch.fft.rfft(x, n=n) * torch.fft.rfft(kernel, n=n), n=n)[..., :length]
        ctx.save_for_backward(x, kernel, skip)
        return y + skip[:, None] * x

    @staticmethod
    def backward(ctx, grad):
        x, kernel, skip = ctx.saved_tensors
        length, taps = x.shape[-1], kernel.shape[-1]
        n = length
        gf = torch.fft.rfft(grad, n=n)
        gx = torch.fft.irfft(gf * torch.fft.rfft(kernel, n=n).conj(), n=n)[..., :length]
        gk = torch.fft.irfft((gf * torch.fft.rfft(x, n=n).conj()).sum(0), n=n)[..., :taps]
        return gx + skip[:, None] * grad, gk, (grad * x).sum((0, 2))


def cholesky(a, jitter=0.0):
    """See :class:`_Cholesky`."""
    return _Cholesky.apply(a, jitter)


def symeig(a):
    """See :class:`_SymEig`."""
    return _SymEig.apply(a)


def leapfrog(q, p, k, lam, *, mass=1.0, dt=0.2, n_steps=10):
    """See :class:`_Leapfrog`."""
    return _Leapfrog.apply(q, p, k, lam, mass, dt, n_steps)


def spherical_harmonics(vec, lmax=2, normalize=True):
    """See :class:`_RealSH`."""
    return _RealSH.apply(vec, lmax, normalize)


def long_conv(x, kernel, skip):
    """See :class:`_LongConv`."""
    return _LongConv.apply(x, kernel, skip)


def gaussian_nll(resid, cov, jitter=1e-8):
    """Negative log density of residuals (..., n) under N(0, cov), cov (..., n, n)."""
    chol = cholesky(cov, jitter)
    z = torch.linalg.solve_triangular(chol, resid.unsqueeze(-1), upper=False).squeeze(-1)
    logdet = chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 0.5 * (z * z).sum(-1) + logdet + 0.5 * resid.shape[-1] * math.log(2 * math.pi)


def whiten(cov):
    """Inverse square root of a covariance, through its eigenbasis."""
    w, v = symeig(cov)
    return v @ torch.diag_embed(w.rsqrt()) @ v.mT


def oscillator_misfit(q0, p0, k, lam, observed):
    """Squared misfit of the trajectory's end point."""
    q, _ = leapfrog(q0, p0, k, lam, mass=1.5, dt=0.2, n_steps=8)
    return ((q - observed) ** 2).mean()
