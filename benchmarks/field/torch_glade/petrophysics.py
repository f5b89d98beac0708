"""Rock physics and geostatistics for reservoir inversion.

All moduli in GPa, densities in g/cc, resistivities in ohm m.
"""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _sum_to(grad, shape):
    """Reduce a broadcast gradient to the shape of the argument."""
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdim=True)
    return grad


class GassmannSubstitution(Function):
    r"""Saturated bulk modulus and bulk density of a porous rock.

    .. math::
        K_{sat} = K_d + \frac{(1 - K_d/K_m)^2}{\phi/K_f + (1-\phi)/K_m - K_d/K_m^2},
        \qquad \rho = (1-\phi)\rho_m + \phi\rho_f

    Parameters
    ----------
    k_dry, k_min, k_fl : Tensor
        Dry-frame, mineral and fluid bulk moduli, ``0 < k_dry < k_min``.
    phi : Tensor
        Porosity in (0, 1).
    rho_min, rho_fl : Tensor
        Mineral and fluid densities.

    Returns
    -------
    k_sat, rho : Tensor
        ``k_sat`` has the broadcast shape of the moduli and porosity, ``rho`` the
        broadcast shape of porosity and densities.
    """

    @staticmethod
    def forward(ctx, k_dry, k_min, k_fl, phi, rho_min, rho_fl):
        biot = 1.0 - k_dry / k_min
        den = phi / k_fl + (1.0 - phi) / k_min - k_dry / k_min**2
        ctx.save_for_backward(k_dry, k_min, k_fl, phi, rho_min, rho_fl)
        return k_dry + biot**2 / den, (1.0 - phi) * rho_min + phi * rho_fl

    @staticmethod
    @once_differentiable
    def backward(ctx, g_k, g_rho):
        k_dry, k_min, k_fl, phi, rho_min, rho_fl = ctx.saved_tensors
        biot = 1.0 - k_dry / k_min
        den = phi / k_fl + (1.0 - phi) / k_min - k_dry / k_min**2
        ratio = biot / den
        sq = ratio * ratio
        d_dry = 1.0 - 2.0 * ratio / k_min + sq / k_min**2
        d_min = 2.0 * ratio * k_dry / k_min**2 + sq * ((1.0 - phi) / k_min**2 - 2.0 * k_dry / k_min**3)
        d_fl = sq * phi / k_fl**2
        d_phi = -sq * (1.0 / k_fl - 1.0 / k_min)
        g_phi = _sum_to(g_k * d_phi, phi.shape) + _sum_to(g_rho * (rho_fl - rho_min), phi.shape)
        return (
            _sum_to(g_k * d_dry, k_dry.shape),
            _sum_to(g_k * d_min, k_min.shape),
            _sum_to(g_k * d_fl, k_fl.shape),
            g_phi,
            _sum_to(g_rho * (1.0 - phi), rho_min.shape),
            _sum_to(g_rho * phi, rho_fl.shape),
        )


class VariogramModel(Function):
    """Isotropic variogram ``gamma(h)`` with nugget, partial sill and range.

    ``lag`` may have any shape and holds distances ``h >= 0``; ``nugget``, ``sill``
    and ``reach`` are scalars (0-d tensors). By definition ``gamma(0) = 0``, the
    nugget is the jump just beside the origin, so the diagonal of a lag matrix maps
    to zero. ``kind`` is "spherical", "exponential" or "gaussian" (the latter two
    with the practical range, 95 % of the sill at ``h = reach``).
    """

    @staticmethod
    def _shape(u, kind):
        if kind == "spherical":
            inside = u < 1
            s = torch.where(inside, 1.5 * u - 0.5 * u**3, torch.ones_like(u))
            ds = torch.where(inside, 1.5 - 1.5 * u**2, torch.zeros_like(u))
        elif kind == "exponential":
            decay = torch.exp(-3.0 * u)
            s, ds = 1.0 - decay, 3.0 * decay
        elif kind == "gaussian":
            decay = torch.exp(-3.0 * u**2)
            s, ds = 1.0 - decay, 6.0 * u * decay
        else:
            raise ValueError(f"unknown variogram {kind!r}")
        return s, ds

    @staticmethod
    def forward(lag, nugget, sill, reach, kind):
        s, _ = VariogramModel._shape(lag / reach, kind)
        return torch.where(lag > 0, nugget + sill * s, torch.zeros_like(s))

    @staticmethod
    def setup_context(ctx, inputs, output):
        lag, _, sill, reach, ctx.kind = inputs
        ctx.save_for_backward(lag, sill, reach)

    @staticmethod
    def backward(ctx, grad):
        lag, sill, reach = ctx.saved_tensors
        u = lag / reach
        s, ds = VariogramModel._shape(u, ctx.kind)
        g_lag = None
        if ctx.needs_input_grad[0]:
            g_lag = torch.where(lag > 0, grad * sill * ds / reach, torch.zeros_like(lag))
        g_nugget = grad.sum()
        g_sill = (grad * s).sum()
        g_reach = -(grad * sill * ds * u).sum() / reach
        return g_lag, g_nugget, g_sill, g_reach, None


class ArchieSaturation(Function):
    """Water saturation from Archie's law, limited to fully saturated rock.

    Sw = min(1, (a Rw / (phi^m Rt))^(1/n)); ``m`` and ``n`` are 0-d tensors (they are
    fitted per zone), the tortuosity ``a`` a plain float. ``phi``, ``rt`` and ``rw`` share
    one shape. Where the limit is active nothing is propagated.
    """

    @staticmethod
    def forward(ctx, phi, rt, rw, m, n, a=1.0):
        log_sw = (torch.log(a * rw / rt) - m * torch.log(phi)) / n
        free = log_sw <= 0
        sw = torch.exp(log_sw.clamp(max=0.0))
        ctx.save_for_backward(phi, rt, rw, m, n, sw, free)
        return sw

    @staticmethod
    def backward(ctx, grad):
        phi, rt, rw, m, n, sw, free = ctx.saved_tensors
        base = torch.where(free, grad * sw / n, torch.zeros_like(grad))
        need = ctx.needs_input_grad
        return (
            -base * m / phi if need[0] else None,
            -base / rt if need[1] else None,
            base / rw if need[2] else None,
            -(base * torch.log(phi)).sum() if need[3] else None,
            -(base * torch.log(sw)).sum() if need[4] else None,
            None,
        )


def gassmann(k_dry, k_min, k_fl, phi, rho_min, rho_fl):
    """Gassmann substitution that also accepts plain floats."""
    ref = next(v for v in (k_dry, k_min, k_fl, phi, rho_min, rho_fl) if torch.is_tensor(v))
    args = [torch.as_tensor(v, dtype=ref.dtype, device=ref.device) for v in (k_dry, k_min, k_fl, phi, rho_min, rho_fl)]
    return GassmannSubstitution.apply(*args)


def variogram(lag, nugget, sill, reach, kind="spherical"):
    return VariogramModel.apply(lag, nugget, sill, reach, kind)


def kriging_covariance(coords, nugget, sill, reach, kind="spherical"):
    """Covariance ``C(0) - gamma(h)`` between all pairs of wells in ``coords`` (n, 2)."""
    lag = torch.cdist(coords.detach(), coords.detach())
    lag = lag.fill_diagonal_(0.0)
    return nugget + sill - variogram(lag, nugget, sill, reach, kind)


def fit_archie(phi, rt, rw, sw_core, steps=200, lr=2e-2):
    """Fit cementation and saturation exponents to core saturations."""
    m = torch.tensor(2.0, dtype=phi.dtype, requires_grad=True)
    n = torch.tensor(2.0, dtype=phi.dtype, requires_grad=True)
    opt = torch.optim.Adam([m, n], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (ArchieSaturation.apply(phi, rt, rw, m, n) - sw_core).square().mean()
        loss.backward()
        opt.step()
    return m.detach(), n.detach()
