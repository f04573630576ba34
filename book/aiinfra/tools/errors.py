"""One way to tell a person that something they gave was wrong."""


class UserError(Exception):
    """What was wrong, what was expected, what to do: printed as one line, exit 2."""
