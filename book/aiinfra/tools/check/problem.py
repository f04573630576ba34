"""What a gate found: where, and what is wrong there."""

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One finding. ``path`` is relative to the root; ``line`` counts from 1."""

    path: str
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"
