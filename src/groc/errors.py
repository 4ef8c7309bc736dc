"""The one exception a user of GroC is meant to see."""


class GrocError(Exception):
    """Something the user can mend. The message is one clear sentence that says what is wrong and what to do.

    The command line prints it without a traceback and exits with status 1.
    """
