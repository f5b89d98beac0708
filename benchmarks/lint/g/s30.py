import numpy as np

MAS = np.deg2rad(1.0 / 3.6e6)


def separation_mas(ra1, dec1, ra2, dec2):
    """Angle between two catalogue positions (degrees), in milliarcseconds."""
    ra1, dec1, ra2, dec2 = map(np.deg2rad, (ra1, dec1, ra2, dec2))
    c = np.sin(dec1) * np.sin(dec2)
    c = c + np.cos(dec1) * np.cos(dec2) * np.cos(ra1 - ra2)
    return np.arccos(np.clip(c, -1.0, 1.0)) / MAS
