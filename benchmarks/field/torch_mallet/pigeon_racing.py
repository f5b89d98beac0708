"""Homing pigeon races: velocities, wind and club standings.

A convoy is liberated in the morning, each bird is clocked in at its own loft,
and velocity decides.  Lofts are spread over a hundred kilometres, so the
federation asks how much of a result was the wind.  Here the airspeed of birds,
the wind along the line of flight and the drift of the clocks are fitted
together, by gradient descent, from several seasons of result sheets.

Distances in metres, times in minutes after midnight of the liberation day,
speeds in metres per minute as on the result sheets, bearings in radians.
"""

import math
from typing import Dict, List, NamedTuple, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function

EARTH_RADIUS = 6_371_000.0
ANEMOMETER_HEIGHT = 10.0
MINUTES_PER_DAY = 1440.0
LEAST_FORWARD = 60.0

#: hours of darkness in June as (stop, start) in minutes; two race nights
JUNE_NIGHTS: Tuple[Tuple[float, float], ...] = ((1350.0, 1710.0), (2790.0, 3150.0))


class Loft(NamedTuple):
    name: str
    latitude: float
    longitude: float


class Station(NamedTuple):
    """A wind station on the line of flight."""

    speed: Tensor
    direction_from: Tensor


def great_circle(lat1: Tensor, lon1: Tensor, lat2: Tensor, lon2: Tensor) -> Tuple[Tensor, Tensor]:
    """Distance and initial bearing, all angles in radians."""
    dlon = lon2 - lon1
    h = torch.sin((lat2 - lat1) / 2) ** 2 + torch.cos(lat1) * torch.cos(lat2) * torch.sin(dlon / 2) ** 2
    distance = 2 * EARTH_RADIUS * torch.asin(torch.sqrt(h))
    bearing = torch.atan2(
        torch.sin(dlon) * torch.cos(lat2),
        torch.cos(lat1) * torch.sin(lat2) - torch.sin(lat1) * torch.cos(lat2) * torch.cos(dlon),
    )
    return distance, bearing


def _reduce(grad, shape):
    return grad.sum_to_size(shape)


class ConvoyVelocity(Function):
    """Velocity of each bird, hours of darkness not counted.

    ``distance`` and ``arrival`` have one entry per bird (any broadcastable
    shapes), ``release`` one per convoy or per bird, ``drift`` is the relative
    rate error of the clock since it was set at ``set_time`` (a float).
    ``nights`` is a sequence of ``(start, stop)`` pairs that do not overlap.

    Returns velocity and minutes flown.
    """

    @staticmethod
    def forward(ctx, distance, arrival, release, drift, set_time, nights):
        clocked = arrival + drift * (arrival - set_time)
        flown = clocked - release
        at_night_end = torch.zeros_like(flown)
        at_night_begin = torch.zeros_like(flown)
        for start, stop in nights:
            dark = torch.minimum(clocked, torch.full_like(clocked, stop)) - release.clamp(min=start)
            flown = flown - dark.clamp(min=0.0)
            overlap = dark > 0
            at_night_end = at_night_end + (overlap & (clocked < stop)).to(flown.dtype)
            at_night_begin = at_night_begin + (overlap & (release > start)).to(flown.dtype)
        velocity = distance / flown
        ctx.save_for_backward(distance, arrival, release, drift, velocity, flown, at_night_end, at_night_begin)
        ctx.set_time = set_time
        return velocity, flown

    @staticmethod
    def backward(ctx, g_velocity, g_flown):
        distance, arrival, release, drift, velocity, flown, end, begin = ctx.saved_tensors
        need = ctx.needs_input_grad
        g_time = g_flown - _reduce(g_velocity * velocity / flown, flown.shape)
        g_clocked = g_time * (1.0 - end)

        out = [None] * 6
        if need[0]:
            out[0] = _reduce(g_velocity / flown, distance.shape)
        if need[1]:
            out[1] = _reduce(g_clocked * (1.0 + drift), arrival.shape)
        if need[2]:
            out[2] = _reduce(-g_time * (1.0 - begin), release.shape)
        if need[3]:
            out[3] = _reduce(g_clocked * (arrival - ctx.set_time), drift.shape)
        return tuple(out)


class WindAssist(Function):
    """Ground speed on each leg for each bird, and the time for all legs.

    Parameters
    ----------
    airspeed : Tensor, shape (birds,)
    wind : Tensor, shape (legs,)
        Speed measured at ``ref_height``.
    relative : Tensor, shape (legs,)
        Angle between the wind's heading and the track; 0 is a tailwind.
    shear : Tensor, shape ()
        Exponent of the wind profile.
    height : Tensor, shape (birds, legs)
        Height above ground at which the bird flies.
    length : Tensor, shape (legs,)
        Leg lengths; data, no gradient is given.
    ref_height : float
        Height of the anemometer, 10 m at synoptic stations.

    Returns
    -------
    ground : Tensor, shape (birds, legs)
        Never below ``LEAST_FORWARD``.
    minutes : Tensor, shape (birds,)
    """

    @staticmethod
    def forward(ctx, airspeed, wind, relative, shear, height, length, ref_height=ANEMOMETER_HEIGHT):
        profile = (height / ref_height) ** shear
        aloft = wind * profile
        along = aloft * torch.cos(relative)
        cross = aloft * torch.sin(relative)
        forward2 = (airspeed[:, None] ** 2 - cross**2)
        held = forward2 > LEAST_FORWARD**2
        through_air = torch.sqrt(forward2.clamp(min=LEAST_FORWARD**2))
        ground = through_air + along
        moving = ground > LEAST_FORWARD
        ground = ground.clamp(min=LEAST_FORWARD)
        minutes = (length / ground).sum(dim=1)
        ctx.save_for_backward(
            airspeed, relative, shear, height, length, profile, aloft, cross, through_air, ground, held, moving
        )
        return ground, minutes

    @staticmethod
    def backward(ctx, g_ground, g_minutes):
        (airspeed, relative, shear, height, length, profile, aloft, cross,
         through_air, ground, held, moving) = ctx.saved_tensors
        need = ctx.needs_input_grad

        g = g_ground - g_minutes[:, None] * length / ground**2
        g = torch.where(moving, g, torch.zeros_like(g))
        g_air = torch.where(held, g / through_air, torch.zeros_like(g))

        cos, sin = torch.cos(relative), torch.sin(relative)
        g_cross = -g_air * cross
        g_aloft = g * cos + g_cross * sin

        d_airspeed = (g_air * airspeed[:, None]).sum(1) if need[0] else None
        d_wind = (g_aloft * profile).sum(0) if need[1] else None
        d_relative = None
        if need[2]:
            d_relative = (aloft * (g_cross * cos - g * sin)).sum(0)
        d_shear = None
        if need[3]:
            d_shear = (g_aloft * aloft * torch.log(height / ANEMOMETER_HEIGHT)).sum()
        d_height = g_aloft * aloft * shear / height if need[4] else None
        return d_airspeed, d_wind, d_relative, d_shear, d_height, None, None


class NominatedTeamScore(Function):
    """Points of the nominated teams.

    velocity    (races, birds)
    slot_weight (slots,)          first nomination counts most
    nominations (teams, slots)    bird numbers, -1 where a slot was left open
    returns     (races, teams)
    """

    @staticmethod
    def forward(ctx, velocity, slot_weight, nominations):
        filled = nominations >= 0
        bird = nominations.clamp(min=0)
        picked = velocity[:, bird] * filled.to(velocity.dtype)
        ctx.save_for_backward(slot_weight, bird, filled, picked)
        ctx.birds = velocity.shape[1]
        return picked @ slot_weight

    @staticmethod
    def backward(ctx, grad):
        slot_weight, bird, filled, picked = ctx.saved_tensors
        d_velocity = d_weight = None
        if ctx.needs_input_grad[0]:
            contribution = grad[:, :, None] * slot_weight
            d_velocity = grad.new_zeros(grad.shape[0], ctx.birds)
            d_velocity[:, bird[filled]] = contribution[:, filled]
        if ctx.needs_input_grad[1]:
            d_weight = torch.einsum("rt,rts->s", grad, picked)
        return d_velocity, d_weight, None


class FlightLine(nn.Module):
    """Wind model of one liberation site.

    Anemometers of the federation's own masts stand at ``mast_height``; with
    synoptic data leave the default.
    """

    def __init__(self, birds: int, legs: int, mast_height: float = ANEMOMETER_HEIGHT):
        super().__init__()
        self.airspeed = nn.Parameter(torch.full((birds,), 1150.0))
        self.shear = nn.Parameter(torch.tensor(0.18))
        self.log_height = nn.Parameter(torch.full((birds, legs), math.log(60.0)))
        self.mast_height = float(mast_height)

    def forward(self, station: Station, bearing: Tensor, length: Tensor) -> Tuple[Tensor, Tensor]:
        heading = station.direction_from + math.pi
        return WindAssist.apply(
            self.airspeed,
            station.speed,
            heading - bearing,
            self.shear,
            self.log_height.exp(),
            length,
            self.mast_height,
        )


class Standings(nn.Module):
    """Season table of the clubs with learned weights of the slots."""

    def __init__(self, slots: int = 3):
        super().__init__()
        self.slot_logit = nn.Parameter(torch.linspace(1.0, 0.0, slots))

    def forward(self, velocity: Tensor, nominations: Tensor) -> Tensor:
        weight = torch.softmax(self.slot_logit, dim=0)
        return NominatedTeamScore.apply(velocity, weight, nominations).sum(0)


class RaceSheet(nn.Module):
    """Turns a result sheet into velocities; clocks may run fast or slow."""

    def __init__(self, clocks: int, set_time: float = 300.0, nights: Sequence[Tuple[float, float]] = JUNE_NIGHTS):
        super().__init__()
        self.drift = nn.Parameter(torch.zeros(clocks))
        self.set_time = set_time
        self.nights = tuple(nights)

    def forward(self, distance: Tensor, arrival: Tensor, release: Tensor, clock: Tensor) -> Dict[str, Tensor]:
        velocity, flown = ConvoyVelocity.apply(
            distance, arrival, release, self.drift[clock], self.set_time, self.nights
        )
        return {"velocity": velocity, "flown": flown}


def nomination_table(teams: Sequence[Sequence[int]], slots: int) -> Tensor:
    """Pad lists of bird numbers to a table with -1."""
    rows: List[List[int]] = []
    for team in teams:
        if len(team) > slots:
            raise ValueError(f"{len(team)} nominations for {slots} slots")
        rows.append(list(team) + [-1] * (slots - len(team)))
    return torch.tensor(rows, dtype=torch.long)


def fit_line(model: FlightLine, station: Station, bearing: Tensor, length: Tensor, minutes: Tensor, steps: int = 30):
    optimiser = torch.optim.Adam(
        [
            {"params": [model.airspeed], "lr": 2.0},
            {"params": [model.shear, model.log_height], "lr": 1e-2},
        ]
    )
    trace = []
    for _ in range(steps):
        optimiser.zero_grad()
        _, predicted = model(station, bearing, length)
        loss = (predicted - minutes).square().mean()
        loss.backward()
        optimiser.step()
        trace.append(loss.item())
    return trace


def main() -> None:
    torch.manual_seed(5)
    legs = 4
    station = Station(torch.tensor([200.0, 260.0, 180.0, 320.0]), torch.tensor([3.6, 3.9, 4.4, 4.1]))
    line = FlightLine(birds=6, legs=legs)
    trace = fit_line(
        line, station, torch.full((legs,), 0.6), torch.full((legs,), 60_000.0), 190.0 + 10 * torch.rand(6)
    )
    print("leg fit", trace[0], trace[-1])

    sheet = RaceSheet(clocks=2)
    out = sheet(
        torch.tensor([240_000.0, 251_000.0, 610_000.0]),
        torch.tensor([620.0, 640.0, 1900.0]),
        torch.tensor(420.0),
        torch.tensor([0, 1, 1]),
    )
    table = nomination_table([[0, 2], [1], [2, 1, 0]], slots=3)
    print(out["velocity"], Standings()(out["velocity"][None], table))


if __name__ == "__main__":
    main()
