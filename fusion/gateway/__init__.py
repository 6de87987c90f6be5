"""The gateway as a whole: `opening` builds it out of settings, `Fusion` is what the doors ask."""
