from keras import ops


def policy_loss(logits, actions_onehot, advantages, beta=0.01):
    p = ops.softmax(logits, axis=-1)
    logp = ops.log(p)
    chosen = ops.sum(actions_onehot * ops.log_softmax(logits, axis=-1), axis=-1)
    entropy = -ops.sum(p * logp, axis=-1)
    return ops.mean(-chosen * advantages - beta * entropy)
