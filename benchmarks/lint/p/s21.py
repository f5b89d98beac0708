import numpy as np


def reference_tone(duration_s, freq_hz, sample_rate=48000, amplitude=0.5):
    """Mono calibration tone with a short fade at both ends."""
    n = int(duration_s * sample_rate)
    t = np.arange(n, dtype=np.float32) / np.float32(sample_rate)
    tone = amplitude * np.sin(np.float32(2.0 * np.pi * freq_hz) * t)
    fade = min(n // 2, sample_rate // 100)
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)
    tone[:fade] *= ramp
    tone[n - fade:] *= ramp[::-1]
    return tone
