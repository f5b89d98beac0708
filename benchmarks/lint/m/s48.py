from keras import ops

MASKED = -1e9


def masked_attention(query, key, value, keep):
    query, key, value = (ops.cast(t, "float16") for t in (query, key, value))
    scale = query.shape[-1] ** -0.5
    scores = ops.matmul(query * scale, ops.transpose(key, (0, 2, 1)))
    bias = (1.0 - ops.cast(keep, "float16")) * ops.cast(MASKED, "float16")
    scores = scores + bias[:, None, :]
    return ops.matmul(ops.softmax(scores, axis=-1), value)
