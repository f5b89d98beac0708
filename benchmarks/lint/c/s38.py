from keras import ops


def cosine_scores(query, keys):
    """Similarity of each query row with each key row; rows of padding are zero."""
    q_norm = ops.sqrt(ops.maximum(ops.sum(ops.square(query), axis=-1, keepdims=True), 1e-12))
    k_norm = ops.sqrt(ops.maximum(ops.sum(ops.square(keys), axis=-1), 1e-12))
    sim = ops.matmul(query, ops.transpose(keys))
    return sim / (q_norm * k_norm)


def retrieval_loss(query, keys, targets):
    return ops.mean(ops.square(cosine_scores(query, keys) - targets))
