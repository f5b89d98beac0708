import numpy as np

SAMPLE_RATE = 48000


class Oscillator:
    def __init__(self, freq_hz, amplitude=0.5):
        self.step = 2.0 * np.pi * freq_hz / SAMPLE_RATE
        self.amplitude = amplitude

    def render(self, seconds):
        n = int(seconds * SAMPLE_RATE)
        increments = np.full(n, self.step, dtype=np.float64)
        phase = np.cumsum(increments)
        return (self.amplitude * np.sin(phase)).astype(np.float32)
