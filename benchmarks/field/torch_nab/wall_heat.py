"""Heat through and between the walls of a room."""

from dataclasses import dataclass

import torch
import torch.nn as nn

STEFAN_BOLTZMANN = 5.670374e-8

# natural convection h = c |dT|^n, by posture of the surface: 0 vertical, 1 floor-like, 2 ceiling-like
FILM_COEFFICIENT = (1.31, 1.52, 0.76)
FILM_EXPONENT = (1.0 / 3.0, 1.0 / 3.0, 0.25)


@dataclass
class Room:
    """Fixed data of a room.

    Attributes
    ----------
    step : float
        Time step in s.
    posture : tuple of int
        Posture of each surface.
    """

    step: float = 600.0
    posture: tuple = (0, 0, 0, 0, 1, 2)


def _layer_matrix(conductance, capacity, draught, step):
    """Matrix of one implicit step; ``draught`` is the heat rate carried from each layer into the next one."""
    n = capacity.shape[-1]
    eye = torch.eye(n, dtype=capacity.dtype, device=capacity.device)
    diag = capacity / step + conductance[..., :-1] + conductance[..., 1:] + draught[..., None]
    a = diag[..., None] * eye
    off = torch.diag_embed(conductance[..., 1:-1], offset=1) + torch.diag_embed(conductance[..., 1:-1], offset=-1)
    return a - off - draught[..., None, None] * torch.diag_embed(torch.ones_like(conductance[..., 1:-1]), offset=-1)


class WallStep(torch.autograd.Function):
    """One implicit time step of a layered wall with air seeping through it.

    Parameters
    ----------
    temperature : (..., n) layers, outside first
    boundary : (..., 2) temperatures outside and inside
    conductance : (..., n + 1) W/K between neighbours, the first and last to the boundaries
    capacity : (..., n) J/K
    draught : (...) heat rate of the air that seeps inwards, W/K, not negative
    step : float, s

    Leading dimensions are the same for all operands.
    """

    @staticmethod
    def forward(ctx, temperature, boundary, conductance, capacity, draught, step):
        a = _layer_matrix(conductance, capacity, draught, step)
        rhs = capacity / step * temperature
        rhs[..., 0] += (conductance[..., 0] + draught) * boundary[..., 0]
        rhs[..., -1] += conductance[..., -1] * boundary[..., 1]
        new = torch.linalg.solve(a, rhs.unsqueeze(-1)).squeeze(-1)
        ctx.save_for_backward(temperature, boundary, conductance, capacity, draught, a, new)
        ctx.step = step
        return new

    @staticmethod
    def backward(ctx, grad):
        temperature, boundary, conductance, capacity, draught, a, new = ctx.saved_tensors
        lam = torch.linalg.solve(a.transpose(-1, -2), grad.unsqueeze(-1)).squeeze(-1)
        # outside, layers, inside: what each interface sees on its two sides
        t_all = torch.cat([boundary[..., :1], new, boundary[..., 1:]], dim=-1)
        zero = torch.zeros_like(lam[..., :1])
        l_all = torch.cat([zero, lam, zero], dim=-1)
        d_conductance = (t_all[..., :-1] - t_all[..., 1:]) * (l_all[..., 1:] - l_all[..., :-1])
        d_capacity = lam * (temperature - new) / ctx.step
        d_draught = (lam * (t_all[..., :-2] - new)).sum(-1)
        d_temperature = lam * capacity / ctx.step
        d_boundary = torch.stack(
            [lam[..., 0] * (conductance[..., 0] + draught), lam[..., -1] * conductance[..., -1]], dim=-1
        )
        return d_temperature, d_boundary, d_conductance, d_capacity, d_draught, None


class RadiantExchange(torch.autograd.Function):
    """Net radiant heat gained by the grey surfaces of an enclosure.

    Parameters
    ----------
    temperature : (B, n) kelvin
    emissivity : (n,) in (0, 1]
    view : (n, n) view factors, ``view[i, j]`` from i to j, rows sum to at most 1
    area : (n,) m2

    Returns
    -------
    (B, n) watts
    """

    @staticmethod
    def forward(ctx, temperature, emissivity, view, area):
        black = STEFAN_BOLTZMANN * temperature**4
        system = torch.eye(view.shape[0], dtype=view.dtype, device=view.device) - (1.0 - emissivity)[:, None] * view
        leaving = torch.linalg.solve(system, (emissivity * black).T).T
        arriving = leaving @ view.T
        ctx.save_for_backward(temperature, emissivity, view, area, system, black, leaving, arriving)
        return area * (arriving - leaving)

    @staticmethod
    def backward(ctx, grad):
        temperature, emissivity, view, area, system, black, leaving, arriving = ctx.saved_tensors
        d_area = (grad * (arriving - leaving)).sum(0)
        pull = grad * area
        lam = torch.linalg.solve(system.T, (pull @ view - pull).T).T
        d_emissivity = (lam * (black - arriving)).sum(0)
        d_view = (pull + lam * (1.0 - emissivity)).T @ leaving
        d_temperature = lam * emissivity * 4.0 * STEFAN_BOLTZMANN * temperature**3
        return d_temperature, d_emissivity, d_view, d_area


class FilmFlux(torch.autograd.Function):
    """Convective flux from air to surfaces, W/m2.

    Buoyant and forced coefficients are blended as ``h = (h_b**3 + h_f**3) ** (1/3)``.

    Parameters
    ----------
    air : (B, 1) or (B, n)
    surface : (B, n)
    forced : (n,) forced coefficient of each surface, 0 in still air
    posture : (n,) int64, rows of the tables above
    """

    @staticmethod
    def forward(ctx, air, surface, forced, posture):
        c = air.new_tensor(FILM_COEFFICIENT)[posture]
        n = air.new_tensor(FILM_EXPONENT)[posture]
        delta = air - surface
        size = delta.abs().clamp_min(1e-6)
        buoyant = c * size**n
        h = (buoyant**3 + forced**3) ** (1.0 / 3.0)
        ctx.save_for_backward(delta, n, buoyant, forced, h)
        ctx.air_shape = air.shape
        return h * delta

    @staticmethod
    def backward(ctx, grad):
        delta, n, buoyant, forced, h = ctx.saved_tensors
        d_delta = grad * (h + n * buoyant)
        d_forced = (grad * delta * (forced / h) ** 2).sum(0)
        return d_delta.sum_to_size(ctx.air_shape), -d_delta, d_forced, None


class DiscomfortHours(torch.autograd.Function):
    """Hours outside the comfort band, weighted by how far outside, summed by tenant.

    ``air`` is (T, Z), ``low`` and ``high`` (Z,), ``presence`` (T, Z) or (T, 1) people; ``tenant`` (Z,) int64 maps zones
    to ``tenants`` rows, -1 for zones that nobody rents.  ``power`` 1 counts degree hours, 2 squares them.
    """

    @staticmethod
    def forward(ctx, air, low, high, presence, tenant, tenants, hours, power):
        cold = (low - air).clamp_min(0.0)
        hot = (air - high).clamp_min(0.0)
        zone = (presence * (cold**power + hot**power)).sum(0) * hours
        let = tenant >= 0
        out = zone.new_zeros(tenants).index_add_(0, tenant[let], zone[let])
        ctx.save_for_backward(cold, hot, presence, tenant)
        ctx.hours, ctx.power = hours, power
        return out

    @staticmethod
    def backward(ctx, grad):
        cold, hot, presence, tenant = ctx.saved_tensors
        p = ctx.power
        zone = torch.where(tenant >= 0, grad[tenant.clamp_min(0)], torch.zeros_like(cold[0])) * ctx.hours
        d_cold = zone * presence * p * torch.where(cold > 0, cold ** (p - 1), torch.zeros_like(cold))
        d_hot = zone * presence * p * torch.where(hot > 0, hot ** (p - 1), torch.zeros_like(hot))
        d_presence = (zone * (cold**p + hot**p)).sum_to_size(presence.shape)
        return d_hot - d_cold, d_cold.sum(0), -d_hot.sum(0), d_presence, None, None, None, None


class RoomModel(nn.Module):
    """Surface fluxes of a room from air and surface temperatures in kelvin."""

    def __init__(self, view, area, room=Room()):
        super().__init__()
        self.register_buffer("view", view)
        self.register_buffer("area", area)
        self.register_buffer("posture", torch.tensor(room.posture))
        self.emissivity = nn.Parameter(torch.full_like(area, 0.9))
        self.forced = nn.Parameter(torch.zeros_like(area))

    def forward(self, air, surface):
        convected = FilmFlux.apply(air, surface, self.forced, self.posture) * self.area
        return convected + RadiantExchange.apply(surface, self.emissivity, self.view, self.area)
