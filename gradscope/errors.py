"""The one error type a user can cause, and the exit codes that scripts may rely on."""

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of every gradscope command. 128 + n (stopped by signal n) is made by `signal_exit`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    OUT_OF_MEMORY = 3
    STOPPED = 4
    CLAIM_FAILED = 5
    ENVIRONMENT = 6


def signal_exit(signum: int) -> int:
    """Return the shell's exit code for a command that was stopped by signal `signum`."""
    return 128 + signum


class GradscopeError(Exception):
    """Something the user can mend: one sentence that says what is wrong, and one that says the remedy.

    The command line prints both to stderr and leaves with `exit_code`; a screen shows them in a panel.
    """

    def __init__(self, message: str, hint: str = "", *, exit_code: ExitCode = ExitCode.USAGE) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code
