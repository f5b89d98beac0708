import tensorflow as tf


@tf.function
def style_step(image, target_features, extractor, optimizer, tv_weight=1e-4):
    with tf.GradientTape() as tape:
        content = tf.reduce_mean(tf.square(extractor(image) - target_features))
        dx = image[:, :-1, 1:, :] - image[:, :-1, :-1, :]
        dy = image[:, 1:, :-1, :] - image[:, :-1, :-1, :]
        magnitude = tf.sqrt(tf.square(dx) + tf.square(dy) + 1e-6)
        loss = content + tv_weight * tf.reduce_sum(magnitude)
    grad = tape.gradient(loss, image)
    optimizer.apply_gradients([(grad, image)])
    image.assign(tf.clip_by_value(image, 0.0, 1.0))
    return loss
