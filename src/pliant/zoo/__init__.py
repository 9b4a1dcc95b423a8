"""Predefined robots and named experiments."""
