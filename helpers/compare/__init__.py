"""Lay prediction and measurement side by side: tables, plots, widgets."""
