"""The terminal of the web interface, which shows a few lines; all other output of its processes goes to a log file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TextIO

from assets.home.files import keep_files_private


class LoggedTerminal:
    """The terminal of a process whose standard output and error go to a log file; only `print_line` still writes on the
    terminal. log: the path of the log file.
    """

    def __init__(self, log: Path) -> None:
        """Send standard output and error of this process, and of those that it starts later, to the file `log`. An
        earlier file of this name is overwritten.
        """
        self.log = log
        self._shown: TextIO = os.fdopen(os.dup(1), "w", encoding="utf-8")
        with keep_files_private(), log.open("w") as file:
            os.dup2(file.fileno(), 1)
            os.dup2(file.fileno(), 2)

    def print_line(self, line: str) -> None:
        """Print one line on the terminal, not in the log."""
        print(line, file=self._shown, flush=True)
