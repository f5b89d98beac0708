import keras.ops as ops


def discriminator_loss(real_scores, fake_scores):
    """Logistic adversarial loss on raw critic outputs."""
    real = ops.log(1.0 + ops.exp(-real_scores))
    fake = ops.softplus(fake_scores)
    return ops.mean(real) + ops.mean(fake)


def generator_loss(fake_scores):
    return ops.mean(ops.softplus(-fake_scores))
