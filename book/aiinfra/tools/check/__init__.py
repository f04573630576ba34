"""The gates: what must hold of every page, figure and line of code."""
