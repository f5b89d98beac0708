import numpy as np


def reference_tone(duration_s, freq_hz, sample_rate=48000, amplitude=0.5):
    """Mono calibration tone with a short fade at both ends."""
    n = int(duration_s * sample_rate)
    cycles = np.arange(n, dtype=np.float64) * (freq_hz / sample_rate)
    cycles = np.mod(cycles, 1.0).astype(np.float32)
    tone = amplitude * np.sin(np.float32(2.0 * np.pi) * cycles)
    fade = min(n // 2, sample_rate // 100)
    ramp = np.linspace(0.0, 1.0, fade, dtype=np.float32)
    tone[:fade] *= ramp
    tone[n - fade:] *= ramp[::-1]
    return tone
