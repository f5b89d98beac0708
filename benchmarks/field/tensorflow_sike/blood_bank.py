from __future__ import annotations

import math
from dataclasses import dataclass, field

import tensorflow as tf

ABO = ("O-", "O+", "A-", "A+", "B-", "B+", "AB-", "AB+")


def red_cell_table() -> list[list[bool]]:
    """Donor (row) to recipient (column) table of the eight ABO/Rh groups."""

    def ok(donor, recipient):
        antigens = set(donor[:-1]) - {"O"}
        return antigens <= set(recipient[:-1]) and not (donor[-1] == "+" and recipient[-1] == "-")

    return [[ok(d, r) for r in ABO] for d in ABO]


class Fridge:
    """Shelf of units in age classes, oldest class first.

    Args:
        policy: "fifo" hands out the oldest units first, "lifo" the freshest.
    """

    def __init__(self, policy: str = "fifo"):
        if policy not in ("fifo", "lifo"):
            raise ValueError(policy)
        self.freshest_first = policy == "lifo"
        self.issue = tf.custom_gradient(self._issue)

    def _issue(self, stock: tf.Tensor, demand: tf.Tensor):
        """Units handed out of every age class, and the demand left unmet.

        Args:
            stock: [..., ages], non-negative.
            demand: [...], non-negative.

        Returns:
            issued [..., ages] and unmet [...].
        """
        ahead = tf.cumsum(stock, axis=-1, exclusive=True, reverse=self.freshest_first)
        wanted = demand[..., None] - ahead
        issued = tf.clip_by_value(wanted, tf.zeros_like(stock), stock)
        short = demand - tf.reduce_sum(stock, axis=-1)

        def grad(g_issued, g_unmet):
            emptied = wanted >= stock
            opened = tf.logical_and(wanted > 0, tf.logical_not(emptied))
            g_open = tf.where(opened, g_issued, tf.zeros_like(g_issued))
            g_short = tf.where(short > 0, g_unmet, tf.zeros_like(g_unmet))
            d_stock = tf.where(emptied, g_issued, tf.zeros_like(g_issued))
            d_stock -= tf.cumsum(g_open, axis=-1, exclusive=True, reverse=not self.freshest_first)
            d_stock -= g_short[..., None]
            return d_stock, tf.reduce_sum(g_open, axis=-1) + g_short

        return (issued, tf.nn.relu(short)), grad


def make_split(compatible, view: str = "recipient"):
    """Soft allocation between donor groups and recipient groups.

    Args:
        compatible: [donors, recipients] booleans.
        view: "recipient" splits every recipient group's demand over the donor
            groups that suit it; "donor" splits every donor group's supply over
            the recipient groups that can take it.

    Returns:
        split(score, temperature, quantity) with score [batch, donors,
        recipients], temperature [recipients] and quantity [batch, recipients]
        or [batch, donors] according to the view.  A group without any partner
        is given nothing.
    """
    table = tf.constant(compatible, tf.bool)
    axis = {"recipient": -2, "donor": -1}[view]

    @tf.custom_gradient
    def split(score, temperature, quantity):
        allowed = tf.cast(table, score.dtype)
        cooled = score / temperature
        logits = tf.where(table, cooled, tf.constant(-1e9, score.dtype))
        share = tf.nn.softmax(logits, axis=axis) * allowed
        amount = tf.expand_dims(quantity, axis)

        def grad(upstream):
            d_quantity = tf.reduce_sum(upstream * share, axis=axis)
            pull = upstream * amount
            centre = tf.reduce_sum(pull * share, axis=-2, keepdims=True)
            d_logits = share * (pull - centre)
            d_temperature = -tf.reduce_sum(d_logits * cooled, axis=(0, 1)) / temperature
            return d_logits / temperature, d_temperature, d_quantity

        return share * amount, grad

    return split


def geometric_mean_titre(log_titre, plate_offset, plate, valid, floor=1.0, ceiling=10.0):
    """Geometric mean antibody titre of every serum over its replicate wells.

    Args:
        log_titre: [sera, wells], log2 of the reciprocal end-point dilution.
        plate_offset: [plates], log2 shift of each plate against the reference.
        plate: [sera] integers, the plate on which a serum was run.
        valid: [sera, wells] booleans, False for spoiled wells.
        floor: lowest dilution step; anything lower is reported as the floor.
        ceiling: highest dilution step, likewise.

    Returns:
        [sera] titres; a serum without any valid well has titre one.
    """
    ln2 = math.log(2.0)

    @tf.custom_gradient
    def _titre(log_titre, plate_offset):
        keep = tf.cast(valid, log_titre.dtype)
        wells = tf.reduce_sum(keep, axis=-1)
        levelled = log_titre - tf.gather(plate_offset, plate)[:, None]
        read = tf.clip_by_value(levelled, floor, ceiling)
        mean = tf.math.divide_no_nan(tf.reduce_sum(read * keep, axis=-1), wells)
        titre = tf.exp(ln2 * mean)

        def grad(upstream):
            g_mean = ln2 * titre * upstream
            g_read = tf.math.divide_no_nan(g_mean, wells)[:, None] * keep
            within = tf.logical_and(levelled > floor, levelled < ceiling)
            d_log = tf.where(within, g_read, tf.zeros_like(g_read))
            # an offset moves every well of the serum, hence its mean, alike
            g_offset = tf.where(wells > 0, g_mean, tf.zeros_like(g_mean))
            d_offset = -tf.math.unsorted_segment_sum(g_offset, plate, tf.shape(plate_offset)[0])
            return d_log, d_offset

        return titre, grad

    return _titre(log_titre, plate_offset)


@dataclass
class DepotConfig:
    policy: str = "fifo"
    view: str = "recipient"
    wastage_cost: float = 1.0
    shortage_cost: float = 12.0
    groups: tuple[str, ...] = field(default=ABO)


class Depot(tf.Module):
    def __init__(self, config: DepotConfig):
        super().__init__()
        self.config = config
        self.fridge = Fridge(config.policy)
        self.split = make_split(red_cell_table(), config.view)
        n = len(config.groups)
        self.score = tf.Variable(tf.zeros((n, n)))
        self.log_temperature = tf.Variable(tf.zeros(n))

    def __call__(self, stock, quantity):
        """stock: [batch, groups, ages]; quantity: [batch, groups]."""
        score = tf.broadcast_to(self.score, (tf.shape(quantity)[0], *self.score.shape))
        plan = self.split(score, tf.exp(self.log_temperature), quantity)
        issued, unmet = self.fridge.issue(stock, tf.reduce_sum(plan, axis=-1))
        expired = stock[..., 0] - issued[..., 0]
        return self.config.wastage_cost * tf.reduce_sum(
            expired, axis=-1
        ) + self.config.shortage_cost * tf.reduce_sum(unmet, axis=-1)


def train_step(depot, optimizer, stock, quantity):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(depot(stock, quantity))
    variables = depot.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    return loss
