"""Great-circle angle between points given in radians."""
import tensorflow as tf


@tf.custom_gradient
def haversine(lat1, lon1, lat2, lon2):
    """All arguments (n,), radians. Returns central angles (n,)."""
    dlat, dlon = lat2 - lat1, lon2 - lon1
    sa, so = tf.sin(0.5 * dlat) ** 2, tf.sin(0.5 * dlon) ** 2
    c1, c2 = tf.cos(lat1), tf.cos(lat2)
    h = sa + c1 * c2 * so

    def grad(ct):
        gh = ct / tf.sqrt(h * (1.0 - h))
        h_dlat = 0.5 * tf.sin(dlat)
        h_dlon = 0.5 * c2 * tf.sin(dlon)
        g_lat1 = gh * (-h_dlat - tf.sin(lat1) * c2 * so)
        g_lat2 = gh * (h_dlat - c1 * tf.sin(lat2) * so)
        return g_lat1, -gh * h_dlon, g_lat2, gh * h_dlon

    return 2.0 * tf.asin(tf.sqrt(h)), grad
