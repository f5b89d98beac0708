"""Learned cardinality estimation and plan costing for a small SQL optimiser.

The estimator is trained end to end: range predicates read trainable column
histograms, the resulting selectivities enter the estimated sizes of joins, and
the cost of candidate left-deep plans is a soft function of these sizes. Three
pieces carry their own gradients:

``range_selectivity``
    share of a column's rows within [lower, upper];
``make_plan_cost``
    log of C_out (Cluet & Moerkotte) plus the scans of the base tables, for a
    fixed table of join orders;
``make_template_q_error``
    mean q-error (Moerkotte et al. 2009) and mean log bias per query template.

All column values are scaled to [0, 1] with the catalog's minima and maxima.
"""

import itertools
import math

import numpy as np
import tensorflow as tf

OPEN_BELOW = -1.0
OPEN_ABOVE = 2.0
MIN_SELECTIVITY = 1e-6
Q_LINEAR_FROM = math.log(32.0)


class Catalog:
    """Row counts and value ranges of the columns of a schema.

    Attributes:
        rows: float array, rows per table.
        minimum, maximum: float arrays over all columns.
        table_of: int array, table of each column.
    """

    def __init__(self, rows, minimum, maximum, table_of):
        self.rows = np.asarray(rows, np.float32)
        self.minimum = np.asarray(minimum, np.float32)
        self.maximum = np.asarray(maximum, np.float32)
        self.table_of = np.asarray(table_of, np.int32)

    @property
    def num_tables(self):
        return len(self.rows)

    @property
    def num_columns(self):
        return len(self.minimum)

    def scale(self, value, column):
        span = self.maximum[column] - self.minimum[column]
        return (value - self.minimum[column]) / np.maximum(span, 1e-12)

    def scale_range(self, lower, upper, column):
        """Scaled bounds; ``None`` is an open side."""
        lo = OPEN_BELOW if lower is None else float(self.scale(lower, column))
        hi = OPEN_ABOVE if upper is None else float(self.scale(upper, column))
        return lo, hi


@tf.custom_gradient
def range_selectivity(lower, upper, bin_logits, column):
    """Selectivity of ``lower <= value <= upper`` for a batch of predicates.

    Args:
        lower: (predicates,) scaled lower bounds; OPEN_BELOW if there is none.
        upper: (predicates,) scaled upper bounds; OPEN_ABOVE if there is none.
        bin_logits: (columns, bins) logits of the masses of equal-width bins.
        column: (predicates,) int, column of each predicate. Several predicates
            may fall on one column.

    Returns:
        (predicates,) selectivities; 0 where upper < lower.
    """
    num_columns = tf.shape(bin_logits)[0]
    num_bins = tf.shape(bin_logits)[1]
    width = tf.cast(num_bins, bin_logits.dtype)
    left = tf.cast(tf.range(num_bins), bin_logits.dtype)
    mass = tf.gather(tf.nn.softmax(bin_logits, axis=-1), column)

    def filled(x):
        return tf.clip_by_value(x[:, None] * width - left, 0.0, 1.0)

    valid = tf.cast(upper >= lower, bin_logits.dtype)
    cover = valid[:, None] * (filled(upper) - filled(lower))
    selectivity = tf.reduce_sum(mass * cover, axis=-1)

    def grad(upstream):
        def density(x):
            slot = tf.cast(tf.floor(x * width), tf.int32)
            inside = tf.one_hot(slot, num_bins, dtype=bin_logits.dtype)
            return width * tf.reduce_sum(inside * mass, axis=-1)

        d_lower = -upstream * valid * density(lower)
        d_upper = upstream * valid * density(upper)
        d_rows = upstream[:, None] * mass * (cover - selectivity[:, None])
        d_logits = tf.math.unsorted_segment_sum(d_rows, column, num_columns)
        return d_lower, d_upper, d_logits, None

    return selectivity, grad


def all_left_deep_orders(num_tables, limit=None):
    """Permutations of the tables, one row per plan."""
    orders = itertools.permutations(range(num_tables))
    if limit is not None:
        orders = itertools.islice(orders, limit)
    return np.array(list(orders), np.int32)


def make_plan_cost(orders, scan_weight=1.0):
    """Costs of left-deep plans.

    Parameters
    ----------
    orders : int array (plans, tables)
        Join order of each plan.
    scan_weight : float
        Cost of reading one row of a base table relative to writing one row of
        an intermediate result. Column stores run at 0.05 to 0.3.

    Returns
    -------
    callable ``(log_rows, log_sel) -> log_cost``
    """
    orders = np.asarray(orders, np.int32)
    num_tables = orders.shape[1]
    placed = np.eye(num_tables)[orders]
    earlier = np.triu(np.ones((num_tables, num_tables)), 1)
    log_scan = math.log(scan_weight)

    @tf.custom_gradient
    def log_cost(log_rows, log_sel):
        """log_rows (queries, tables); log_sel (queries, tables, tables) holds the
        log-selectivity of the join predicate of each pair (0 for a cross
        product), of which the symmetric part is used. Gives (queries, plans)."""
        perm = tf.constant(placed, log_rows.dtype)
        before = tf.constant(earlier, log_rows.dtype)
        sym = 0.5 * (log_sel + tf.linalg.matrix_transpose(log_sel))
        rows = tf.einsum("pia,qa->qpi", perm, log_rows)
        pair = tf.einsum("pia,qab,pjb->qpij", perm, sym, perm)
        joined = tf.reduce_sum(pair * before, axis=-2)
        size = tf.cumsum(rows + joined, axis=-1)
        terms = tf.concat([rows + log_scan, size[..., 1:]], axis=-1)
        total = tf.reduce_logsumexp(terms, axis=-1)

        def grad(upstream):
            g = upstream[..., None]
            scan_share = g * tf.exp(rows - total[..., None])
            join_share = g * tf.exp(size[..., 1:] - total[..., None])
            join_share = tf.concat([tf.zeros_like(join_share[..., :1]), join_share], -1)
            suffix = tf.cumsum(join_share, axis=-1, reverse=True)
            d_rows = tf.einsum("pia,qpi->qa", perm, scan_share + suffix)
            d_pair = suffix[..., None, :] * before
            d_sym = tf.einsum("pia,qpij,pjb->qab", perm, d_pair, perm)
            d_sel = 0.5 * (d_sym + tf.linalg.matrix_transpose(d_sym))
            return d_rows, d_sel

        return total, grad

    return log_cost


def make_template_q_error(num_templates, linear_from=Q_LINEAR_FROM):
    """Per-template summaries of the estimation error.

    The q-error is max(est/true, true/est) = exp(|log est - log true|). Beyond a
    log ratio of ``linear_from``, in either direction, it goes on as the tangent,
    so that a few hopeless queries do not take over a batch.
    """
    top = math.exp(linear_from)

    @tf.custom_gradient
    def q_error(log_estimate, log_true, template):
        """Mean q-error and mean log ratio of each template.

        Args:
            log_estimate: (queries,) log of the estimated number of rows.
            log_true: (queries,) log of the number of rows found.
            template: (queries,) int below num_templates.

        Returns:
            Tuple of (templates,) mean q-error and (templates,) mean of
            log_estimate - log_true. Templates without queries give 0.
        """
        ratio = log_estimate - log_true
        size = tf.abs(ratio)
        capped = tf.minimum(size, linear_from)
        error = tf.exp(capped) + top * (size - capped)
        count = tf.math.unsorted_segment_sum(
            tf.ones_like(ratio), template, num_templates
        )
        share = 1.0 / tf.maximum(count, 1.0)
        mean_q = share * tf.math.unsorted_segment_sum(error, template, num_templates)
        bias = share * tf.math.unsorted_segment_sum(ratio, template, num_templates)

        def grad(g_mean, g_bias):
            slope = tf.sign(ratio) * tf.exp(capped)
            slope = tf.where(size > linear_from, top, slope)
            d_ratio = tf.gather(share * g_mean, template) * slope
            d_ratio += tf.gather(share * g_bias, template)
            return d_ratio, -d_ratio, None

        return (mean_q, bias), grad

    return q_error


class HistogramEstimator(tf.Module):
    """Trainable histograms and join selectivities.

    Args:
        catalog: a ``Catalog``.
        num_bins: bins per column.
    """

    def __init__(self, catalog, num_bins=24, name=None):
        super().__init__(name=name)
        self.catalog = catalog
        tables = catalog.num_tables
        self.bin_logits = tf.Variable(
            tf.zeros([catalog.num_columns, num_bins]), name="bin_logits"
        )
        self.log_sel = tf.Variable(tf.fill([tables, tables], -4.0), name="log_sel")

    def filtered_rows(self, lower, upper, column, query, num_queries):
        """log rows [queries, tables] after the predicates, taken as independent."""
        tables = self.catalog.num_tables
        sel = range_selectivity(
            lower, upper, tf.convert_to_tensor(self.bin_logits), column
        )
        log_sel = tf.math.log(tf.maximum(sel, MIN_SELECTIVITY))
        cell = query * tables + tf.gather(self.catalog.table_of, column)
        summed = tf.math.unsorted_segment_sum(log_sel, cell, num_queries * tables)
        return tf.math.log(self.catalog.rows)[None, :] + tf.reshape(
            summed, [num_queries, tables]
        )

    def join_selectivity(self, join_graph):
        """join_graph: [queries, tables, tables] of 0 and 1."""
        return join_graph * tf.convert_to_tensor(self.log_sel)[None]

    def result_size(self, log_rows, log_sel):
        sym = 0.5 * (log_sel + tf.linalg.matrix_transpose(log_sel))
        upper = sym - tf.linalg.band_part(sym, -1, 0)
        return tf.reduce_sum(log_rows, -1) + tf.reduce_sum(upper, axis=[-2, -1])


def expected_plan_cost(log_cost, temperature=0.5):
    """Soft minimum over the plans of each query."""
    scaled = -log_cost / temperature
    return -temperature * tf.reduce_logsumexp(scaled, axis=-1)


class PlanTrainer:
    """Fits an estimator on executed queries and their true sizes."""

    def __init__(self, estimator, num_templates, scan_weight=0.2, cost_weight=0.01):
        self.estimator = estimator
        self.q_error = make_template_q_error(num_templates)
        orders = all_left_deep_orders(estimator.catalog.num_tables, limit=120)
        self.plan_cost = make_plan_cost(orders, scan_weight=scan_weight)
        self.cost_weight = cost_weight
        self.optimizer = tf.keras.optimizers.Adam(0.05)

    def loss(self, batch):
        est = self.estimator
        num_queries = int(batch["log_true"].shape[0])
        log_rows = est.filtered_rows(
            batch["lower"], batch["upper"], batch["column"], batch["query"], num_queries
        )
        log_sel = est.join_selectivity(batch["join_graph"])
        size = est.result_size(log_rows, log_sel)
        mean_q, bias = self.q_error(size, batch["log_true"], batch["template"])
        cost = expected_plan_cost(self.plan_cost(log_rows, log_sel))
        return (
            tf.reduce_mean(mean_q)
            + 0.1 * tf.reduce_mean(tf.square(bias))
            + self.cost_weight * tf.reduce_mean(cost)
        )

    def step(self, batch):
        variables = self.estimator.trainable_variables
        with tf.GradientTape() as tape:
            loss = self.loss(batch)
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss


def demo_batch(catalog, rng, num_queries=32, num_templates=3):
    """Random conjunctive queries over all tables."""
    predicates = num_queries * 2
    column = rng.integers(0, catalog.num_columns, predicates)
    ends = np.sort(rng.uniform(0.0, 1.0, (predicates, 2)), axis=1)
    ends[::5, 0] = OPEN_BELOW
    ends[1::5, 1] = OPEN_ABOVE
    tables = catalog.num_tables
    graph = np.zeros((num_queries, tables, tables), np.float32)
    for i in range(tables - 1):
        graph[:, i, i + 1] = graph[:, i + 1, i] = 1.0
    return {
        "lower": tf.constant(ends[:, 0], tf.float32),
        "upper": tf.constant(ends[:, 1], tf.float32),
        "column": tf.constant(column, tf.int32),
        "query": tf.constant(np.repeat(np.arange(num_queries), 2), tf.int32),
        "join_graph": tf.constant(graph),
        "log_true": tf.constant(rng.uniform(0.0, 14.0, num_queries), tf.float32),
        "template": tf.constant(rng.integers(0, num_templates, num_queries), tf.int32),
    }


if __name__ == "__main__":
    rng = np.random.default_rng(11)
    catalog = Catalog(
        rows=[1e5, 4e3, 2e4],
        minimum=[0.0, 1.0, -5.0, 0.0],
        maximum=[100.0, 12.0, 5.0, 1.0],
        table_of=[0, 0, 1, 2],
    )
    trainer = PlanTrainer(HistogramEstimator(catalog), num_templates=3)
    batch = demo_batch(catalog, rng)
    for epoch in range(20):
        loss = trainer.step(batch)
    print("loss", float(loss))
