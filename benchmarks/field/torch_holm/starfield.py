"""Bits of orbital mechanics and image photometry used by the survey fitter."""
import torch
from torch.autograd import Function

A_JUPITER = 5.2044


class RocheLobeRadius(Function):
    """Eggleton (1983) volume radius of the Roche lobe for mass ratio q > 0 and separation a (broadcast)."""

    @staticmethod
    def forward(ctx, q, a):
        c = q.pow(1.0 / 3.0)
        log_term = torch.log1p(c)
        den = 0.6 * c * c + log_term
        frac = 0.49 * c * c / den
        ctx.save_for_backward(q, a, frac)
        return a * frac

    @staticmethod
    def backward(ctx, g):
        q, a, frac = ctx.saved_tensors
        gq = ga = None
        if ctx.needs_input_grad[0]:
            c = q.pow(1.0 / 3.0)
            log_term = torch.log1p(c)
            den = 0.6 * c * c + log_term
            slope = 0.49 * c * (2.0 * log_term - c / (1.0 + c)) / den.square()
            gq = (g * a * slope * c / (3.0 * q)).sum_to_size(q.shape)
        if ctx.needs_input_grad[1]:
            ga = (g * frac).sum_to_size(a.shape)
        return gq, ga


class TisserandParameter(Function):
    @staticmethod
    def forward(ctx, a, e, inc, a_planet):
        root = torch.sqrt(a / a_planet * (1 - e * e))
        ctx.save_for_backward(a, e, inc, root)
        ctx.a_planet = a_planet
        return a_planet / a + 2 * torch.cos(inc) * root

    @staticmethod
    def backward(ctx, g):
        a, e, inc, root = ctx.saved_tensors
        ci = torch.cos(inc)
        ga = g * (ci * root / a - ctx.a_planet / a ** 2)
        ge = -2 * g * ci * root * e / (1 - e * e)
        gi = -2 * g * torch.sin(inc) * root
        return (
            ga.sum_to_size(a.shape),
            ge.sum_to_size(e.shape),
            gi.sum_to_size(inc.shape),
            None,
        )


def tisserand(a, e, inc, a_planet: float = A_JUPITER):
    return TisserandParameter.apply(a, e, inc, a_planet)


class ApertureCentroid(Function):
    """Flux-weighted centroid and flux inside a soft aperture.

    Parameters
    ----------
    image : (N, H, W) tensor
        Cutouts of the sources.
    background : (N,) tensor
        Sky level of each cutout, subtracted before weighting.
    aperture : (H, W) or (N, H, W) tensor
        Weight of each pixel in [0, 1].  Pixels that the rim of the aperture
        crosses carry the fraction of their area that lies inside.  The
        aperture is geometry and is held constant: it receives no gradient.

    Returns
    -------
    centroid : (N, 2) tensor
        ``(x, y)`` in pixels, from the centre of pixel ``(0, 0)``.
    flux : (N,) tensor
        Net flux in the aperture; must not vanish.
    """

    @staticmethod
    def forward(ctx, image, background, aperture):
        h, w = image.shape[-2:]
        xs = torch.arange(w, dtype=image.dtype, device=image.device)
        ys = torch.arange(h, dtype=image.dtype, device=image.device)
        net = aperture * (image - background[:, None, None])
        flux = net.sum((-2, -1))
        cx = (net.sum(-2) * xs).sum(-1) / flux
        cy = (net.sum(-1) * ys).sum(-1) / flux
        centroid = torch.stack((cx, cy), -1)
        ctx.save_for_backward(aperture, xs, ys, centroid, flux)
        return centroid, flux

    @staticmethod
    def backward(ctx, g_centroid, g_flux):
        aperture, xs, ys, centroid, flux = ctx.saved_tensors
        gx, gy = (g_centroid / flux[:, None]).unbind(-1)
        dx = xs[None, None, :] - centroid[:, 0, None, None]
        dy = ys[None, :, None] - centroid[:, 1, None, None]
        per_pixel = gx[:, None, None] * dx + gy[:, None, None] * dy + g_flux[:, None, None]
        g_image = torch.where(aperture > 0, per_pixel, torch.zeros_like(per_pixel))
        g_background = -g_image.sum((-2, -1))
        return g_image, g_background, None


def soft_circle(shape, centre, radius, rim=1.0, dtype=torch.get_default_dtype()):
    """Circular aperture whose weight falls linearly from 1 to 0 over ``rim`` pixels."""
    y = torch.arange(shape[0], dtype=dtype)[:, None] - centre[1]
    x = torch.arange(shape[1], dtype=dtype)[None, :] - centre[0]
    return ((radius - torch.hypot(x, y)) / rim + 0.5).clamp(0.0, 1.0)


def measure(image, background, radius=3.0):
    h, w = image.shape[-2:]
    ap = soft_circle((h, w), ((w - 1) / 2, (h - 1) / 2), radius, dtype=image.dtype)
    return ApertureCentroid.apply(image, background, ap)
