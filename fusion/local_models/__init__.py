"""The models that run on this machine: a registry of them, and the folder that holds the files of those that are added.

No model runs here; the adapters run them.
"""
