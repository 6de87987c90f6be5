"""The gateway as a whole: `opening` builds it out of settings, `Fusion` is what the doors ask."""

from fusion.wiring.fusion import Fusion

__all__ = ["Fusion"]
