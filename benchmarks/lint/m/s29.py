import tensorflow as tf



class LogCompress(tf.Module):
    def __init__(self, gain=2.0):
        super().__init__()
        self.gain = gain

    def __call__(self, energy):
        energy = tf.nn.relu(energy)
        active = energy > 0.0
        level = self.gain * energy * tf.math.log(energy)
        return tf.where(active, level, tf.zeros_like(level))
