"""Backends: the only code that touches arrays. One folder a device, named in ``fx/devices.py``."""
