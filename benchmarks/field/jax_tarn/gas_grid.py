"""
Steady-state hydraulics of a high-pressure gas grid.

Pressures in bar, flows in standard cubic metres per second, temperatures in K.
"""

import jax
import jax.numpy as jnp

__all__ = ["pipe_throughput", "make_balance", "make_station", "GridModel"]


@jax.custom_jvp
def pipe_throughput(p_from, p_to, conductance, lift):
    """Signed flow in pipes on a slope.

    The driving term is ``d = p_from**2 - exp(lift) * p_to**2`` and the flow is
    ``conductance * sign(d) * sqrt(|d|)``.  All four arguments have the shape
    (pipes,).  Flow counts as positive from ``from`` to ``to`` and either
    direction occurs; standing gas (``d == 0``) is outside of the domain.
    """
    drive = p_from**2 - jnp.exp(lift) * p_to**2
    return conductance * jnp.sign(drive) * jnp.sqrt(jnp.abs(drive))


@pipe_throughput.defjvp
def _pipe_throughput_jvp(primals, tangents):
    p_from, p_to, conductance, lift = primals
    dp_from, dp_to, d_conductance, d_lift = tangents
    flow = pipe_throughput(p_from, p_to, conductance, lift)
    tilt = jnp.exp(lift)
    root = jnp.sqrt(jnp.abs(p_from**2 - tilt * p_to**2))
    d_drive = 2 * p_from * dp_from - tilt * (2 * p_to * dp_to + p_to**2 * d_lift)
    d_flow = 0.5 * conductance * d_drive / root + root * d_conductance
    return flow, d_flow


def make_balance(tail, head, n_nodes):
    """Gas balance of the nodes of a grid.

    Parameters
    ----------
    tail, head : (pipes,) integer
        End nodes; several pipes may join the same pair of nodes.
    n_nodes : int
    """

    @jax.custom_gradient
    def node_imbalance(flow, leak, demand):
        """Gas arriving at the nodes in excess of the demand, (scenarios, nodes).

        Parameters
        ----------
        flow : (scenarios, pipes)
            Positive from ``tail`` to ``head``.
        leak : (pipes,)
            Share of the gas that enters a pipe and is lost before its other end.
        demand : (scenarios, nodes) or (1, nodes)
        """
        forward = flow >= 0
        at_tail = jnp.where(forward, flow, flow * (1 - leak))
        at_head = jnp.where(forward, flow * (1 - leak), flow)
        arriving = jnp.zeros((flow.shape[0], n_nodes), flow.dtype)
        arriving = arriving.at[:, head].add(at_head).at[:, tail].add(-at_tail)

        def grad(g):
            outlet = jnp.where(forward, g[:, head], g[:, tail])
            inlet = jnp.where(forward, g[:, tail], g[:, head])
            speed = jnp.where(forward, 1.0, -1.0)
            d_flow = speed * ((1 - leak) * outlet - inlet)
            d_leak = -jnp.sum(jnp.abs(flow) * outlet, axis=0)
            d_demand = g if demand.shape[0] == g.shape[0] else g.sum(0, keepdims=True)
            return d_flow, d_leak, -d_demand

        return arriving - demand, grad

    return node_imbalance


def make_station(stages=1, heat_ratio=1.3, surge_flow=0.0):
    """Build the duty function of a compressor station.

    Parameters
    ----------
    stages : int
        Number of stages with ideal cooling in between.
    heat_ratio : float
        Ratio of the specific heats.
    surge_flow : float
        Least flow of a unit; below it the machine takes in recycled gas.
    """
    expo = (heat_ratio - 1) / (heat_ratio * stages)

    @jax.custom_vjp
    def station_duty(flow, ratio, t_suction, efficiency):
        """Power per unit of the station, up to a constant.

        flow, ratio: (hours, units), ratio >= 1; t_suction: (hours, 1), shared by
        the units; efficiency: (units,).
        """
        return fwd(flow, ratio, t_suction, efficiency)[0]

    def fwd(flow, ratio, t_suction, efficiency):
        throughput = jnp.maximum(flow, surge_flow)
        head = (ratio**expo - 1) / expo
        duty = throughput * t_suction * head / efficiency
        return duty, (flow, throughput, ratio, t_suction, head, efficiency)

    def bwd(res, g):
        flow, throughput, ratio, t_suction, head, efficiency = res
        unit = g / efficiency
        d_flow = jnp.where(flow > surge_flow, unit * t_suction * head, 0.0)
        d_ratio = unit * flow * t_suction * ratio ** (expo - 1)
        d_suction = jnp.sum(unit * throughput * head, axis=1, keepdims=True)
        d_efficiency = -jnp.sum(unit * throughput * t_suction * head / efficiency, axis=0)
        return d_flow, d_ratio, d_suction, d_efficiency

    station_duty.defvjp(fwd, bwd)
    return station_duty


class GridModel:
    """Residuals of a grid with compressors, for a Newton or a descent solver."""

    def __init__(self, tail, head, n_nodes, stages=1, surge_flow=0.0):
        self.tail = jnp.asarray(tail)
        self.head = jnp.asarray(head)
        self.balance = make_balance(self.tail, self.head, n_nodes)
        self.duty = make_station(stages=stages, surge_flow=surge_flow)

    def residual(self, pressures, pipes, demand):
        """pressures (scenarios, nodes); pipes a dict of (pipes,) arrays."""

        def one(p):
            return pipe_throughput(p[self.tail], p[self.head], pipes["conductance"], pipes["lift"])

        flow = jax.vmap(one)(pressures)
        return self.balance(flow, pipes["leak"], demand)

    def cost(self, flow, ratio, t_suction, efficiency, price):
        """Money spent on compression, with a price per hour."""
        return jnp.sum(price[:, None] * self.duty(flow, ratio, t_suction, efficiency))
