from keras import ops


def cosine_scores(query, keys):
    """Similarity of each query row with each key row; rows of padding are zero."""
    q_norm = ops.sqrt(ops.sum(ops.square(query), axis=-1, keepdims=True))
    k_norm = ops.sqrt(ops.sum(ops.square(keys), axis=-1))
    sim = ops.matmul(query, ops.transpose(keys))
    return sim / (q_norm * k_norm)


def retrieval_loss(query, keys, targets):
    return ops.mean(ops.square(cosine_scores(query, keys) - targets))
