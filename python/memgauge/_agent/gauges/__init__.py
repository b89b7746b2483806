"""Readings of memory."""
