"""COMPARE: two arms over one gather, and what a pair of them says over many questions."""
