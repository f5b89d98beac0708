import tensorflow as tf



class LogCompress(tf.Module):
    def __init__(self, gain=2.0):
        super().__init__()
        self.gain = gain

    def __call__(self, energy):
        energy = tf.nn.relu(energy)
        active = energy > 0.0
        inner = tf.where(active, energy, tf.ones_like(energy))
        level = self.gain * inner * tf.math.log(inner)
        return tf.where(active, level, tf.zeros_like(level))
