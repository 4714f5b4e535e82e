"""How a command reports an error: in one sentence, and for a fault of the program with a log file."""

from __future__ import annotations

from dataclasses import dataclass

from db.server.user_errors import explain_user_error
from orchestration.cli.fault_log import write_fault_log
from orchestration.cli.refusals import UsageError
from orchestration.passwords import hide_passwords

MISTAKE, USAGE, FAULT = 1, 2, 70


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """The sentence that reports an error, without passwords, and the exit code of the command."""

    sentence: str
    exit_code: int


def report_error(error: BaseException) -> ErrorReport:
    """Return the sentence, without passwords, and the exit code for an error: 1, 2 for UsageError, or 70 for a fault of
    the program. For a fault it writes the traceback to a log file, which the sentence names.
    """
    sentence = explain_user_error(error)
    if sentence is None:
        return ErrorReport(write_fault_log(error), FAULT)
    return ErrorReport(hide_passwords(sentence), USAGE if isinstance(error, UsageError) else MISTAKE)
