"""The decorator that gives a command the installation it works on."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Concatenate, ParamSpec, TypeVar, get_type_hints

if TYPE_CHECKING:
    from orchestration.installation import Installation

P = ParamSpec("P")
R = TypeVar("R")


def pass_installation(command: Callable[Concatenate[Installation, P], R]) -> Callable[P, R]:
    """Decorate a command so that it gets the installation of this process as first argument when it is called. Typer
    sees only the other parameters. The installation is made at the call, so help needs none.
    """

    @wraps(command)
    def run(*arguments: P.args, **options: P.kwargs) -> R:
        # Imported late: it imports the drivers of the database.
        from orchestration.installation import get_installation

        return command(get_installation(), *arguments, **options)

    first, *others = inspect.signature(command).parameters.values()
    run.__annotations__ = {name: kind for name, kind in command.__annotations__.items() if name != first.name}
    kinds = get_type_hints(run, include_extras=True)
    vars(run)["__signature__"] = inspect.Signature([other.replace(annotation=kinds[other.name]) for other in others])
    return run
