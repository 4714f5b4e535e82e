"""The log file of a fault of the program, and the sentence that names the file."""

from __future__ import annotations

import platform
import sys
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

from assets.home.settings import SettingsError
from db.server.embedded import create_home
from db.server.urls import DatabaseUnavailable
from orchestration.passwords import hide_passwords
from orchestration.settings import get_settings

MOST_LOGS = 100
"""The logs of faults that a folder keeps."""


def write_fault_log(error: BaseException) -> str:
    """Write the traceback of a fault to a new file in the home's folder `logs`, and return the sentence that names the
    file. Passwords are hidden, and the folder keeps the 100 newest. If the file cannot be written there, it goes to the
    temporary folder. If it cannot be written there either, the traceback follows the sentence.
    """
    message = hide_passwords(" ".join(str(error).split()))
    fault = f"this is a fault of Reelsieve, not yours ({type(error).__name__}{': ' * bool(message)}{message[:200]})"
    trace = hide_passwords(_format_fault(error))
    refused = []
    for folder in _list_log_folders():
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Only this user may read the file: it may quote texts of the data.
            descriptor, name = tempfile.mkstemp(".log", "fault_", folder)
            with open(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(trace)
            _delete_oldest(folder)
        except OSError as problem:
            refused.append(f"{folder}: {problem.strerror}")
        else:
            aside = f" ({'; '.join(refused)})" if refused else ""
            return f"{fault}: please report it with its traceback, which is in {name}{aside}"
    return f"{fault}: please report it with this traceback, since no log can be written ({'; '.join(refused)})\n{trace}"


def _delete_oldest(folder: Path) -> None:
    """Remove the oldest fault logs of a folder, so that MOST_LOGS stay: a page may fail at every request."""
    with suppress(OSError):  # another process may remove the same ones
        for log in sorted(folder.glob("fault_*.log"), key=lambda log: log.stat().st_mtime_ns)[:-MOST_LOGS]:
            log.unlink(missing_ok=True)


def _list_log_folders() -> Iterator[Path]:
    with suppress(SettingsError, DatabaseUnavailable):  # the settings are wrong too, or the home is no folder
        create_home(get_settings().home_folder)
        yield get_settings().home_folder / "logs"
    yield Path(tempfile.gettempdir())


def _format_fault(error: BaseException) -> str:
    """Return the text of a fault log: time, command, Python and platform, and the traceback."""
    lines = [
        f"{datetime.now(timezone.utc):%Y-%m-%d %H:%M:%S} UTC",
        f"command: {' '.join(sys.argv)}",
        f"Python {platform.python_version()}, {platform.platform()}",
        "",
    ]
    return "\n".join(lines) + "\n" + "".join(traceback.format_exception(error))
