"""Headrace for Python: the trainer's end of the bridge, a reference trainer and engine."""

__version__ = "0.1.0"
