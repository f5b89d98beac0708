import tensorflow as tf


# Holling disc for several prey. density [sites, prey], attack / handling [prey].
# q > 1 gives the sigmoid (type III) response
@tf.custom_gradient
def multi_prey_intake(density, attack, handling, *, q=1.0):
    r = density**q
    den = 1.0 + tf.reduce_sum(attack * handling * r, axis=-1, keepdims=True)
    intake = attack * r / den

    def grad(dy):
        total = tf.reduce_sum(dy * intake, axis=-1, keepdims=True)
        common = (dy - handling * total) / den
        d_density = attack * common * density ** (q - 1.0)
        d_attack = tf.reduce_sum(r * common, axis=0)
        d_handling = tf.reduce_sum(-attack * r * total / den, axis=0)
        return d_density, d_attack, d_handling

    return intake, grad


class TagTower(tf.keras.layers.Layer):
    def __init__(self, num_tags, dim, pad_id=0, **kwargs):
        super().__init__(**kwargs)
        self.num_tags = num_tags
        self.dim = dim
        self.pad_id = pad_id

    def build(self, _):
        self.table = self.add_weight(shape=(self.num_tags, self.dim), name="table")

    @tf.custom_gradient
    def pool(self, table, tag_ids, confidence):
        # weighted mean of the tags of an item, confidence > 0
        keep = tf.cast(tf.not_equal(tag_ids, self.pad_id), table.dtype)
        w = confidence * keep
        total = tf.reduce_sum(w, axis=-1, keepdims=True)
        p = tf.math.divide_no_nan(w, total)
        rows = tf.gather(table, tag_ids)
        out = tf.einsum("bl,bld->bd", p, rows)

        def grad(dy):
            d_rows = p[..., None] * dy[:, None, :]
            d_table = tf.math.unsorted_segment_sum(
                tf.reshape(d_rows, [-1, self.dim]), tf.reshape(tag_ids, [-1]), self.num_tags
            )
            score = tf.einsum("bld,bd->bl", rows - out[:, None, :], dy)
            return d_table, None, tf.math.divide_no_nan(keep * score, total)

        return out, grad

    def call(self, tag_ids, confidence=None):
        table = tf.convert_to_tensor(self.table)
        if confidence is None:
            confidence = tf.ones(tf.shape(tag_ids), dtype=table.dtype)
        return self.pool(table, tag_ids, confidence)
