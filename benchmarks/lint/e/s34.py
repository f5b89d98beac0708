from keras import ops


def actor_loss(logits, actions_onehot, advantages, beta=0.01):
    logp = ops.log_softmax(logits, axis=-1)
    p = ops.exp(logp)
    chosen = ops.sum(actions_onehot * logp, axis=-1)
    entropy = -ops.sum(p * logp, axis=-1)
    return ops.mean(-chosen * advantages - beta * entropy)
