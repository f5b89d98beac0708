import numpy as np

MILLIARCSEC = np.deg2rad(1.0 / 3.6e6)


def offset_mas(ra1, dec1, ra2, dec2):
    """Angle between two catalogue positions (degrees), in milliarcseconds."""
    ra1, dec1, ra2, dec2 = map(np.deg2rad, (ra1, dec1, ra2, dec2))
    s = np.sin((dec1 - dec2) / 2.0) ** 2
    s = s + np.cos(dec1) * np.cos(dec2) * np.sin((ra1 - ra2) / 2.0) ** 2
    return 2.0 * np.arcsin(np.sqrt(np.clip(s, 0.0, 1.0))) / MILLIARCSEC
