"""The book's instrument panel: constants, cost models, ranks on a laptop, figures.

Importing ``aiinfra`` imports nothing heavy; each module is a room with one door.
"""

__version__ = "0.1.0"
