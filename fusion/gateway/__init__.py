"""The gateway as a whole: `opening` builds it out of settings, `Gateway` is what the doors ask."""
