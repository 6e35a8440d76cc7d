"""Layers for sequences: recurrent ones, attention, transformers."""
