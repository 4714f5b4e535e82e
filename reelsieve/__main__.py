"""The command line as `python -m reelsieve`, where it is the same in a checkout and in an installed wheel."""

from __future__ import annotations

from orchestration.cli import main

if __name__ == "__main__":
    main()
