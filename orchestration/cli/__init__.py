"""The command line: `reelsieve COMMAND`. Each module holds the commands of one concern."""

from __future__ import annotations

from orchestration.cli.app import main

__all__ = ["main"]
