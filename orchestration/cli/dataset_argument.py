"""The class of all commands: they take a dataset by place or by --dataset, and no empty path."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperOption

_BY_OPTION = "reelsieve: the dataset is given by --dataset"


class DatasetCommand(TyperCommand):
    """A command that also takes its option --dataset as a positional argument, at the option's place among the
    parameters of the function. An empty path, which would mean the current folder, is refused.
    """

    def __init__(self, name: str | None, *, params: list[Any] | None = None, **options: Any) -> None:
        """Make the command; other arguments are those of typer.core.TyperCommand."""
        params = list(params or ())
        self._option = next(
            (each for each in params if isinstance(each, TyperOption) and "--dataset" in each.opts), None
        )
        self._place: TyperArgument | None = None
        self._is_required = self._option is not None and self._option.required
        if self._option is not None:
            self._option.required = False
            self._place = TyperArgument(
                param_decls=["dataset_by_place"],
                type_descriptor=self._option.type_descriptor,
                metavar="DATASET",
                help="Name of the dataset, here or by --dataset.",
            )
            params.insert(params.index(self._option), self._place)
        super().__init__(name, params=params, **options)
        # Typer would keep the line breaks of a docstring in all paragraphs but the first.
        self.help = re.sub(r"(?<!\n)\n(?!\n)", " ", self.help or "")

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, without the positional dataset where the option is given."""
        is_by_option = ctx.meta.get(_BY_OPTION, False)
        return [each for each in super().get_params(ctx) if not (is_by_option and each is self._place)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments into the context. Raises a usage error for an empty path and a missing dataset."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        each: Any
        for each in self.params:
            if given.get(each.name) == "" and each.type_descriptor.annotation in (Path, Path | None):
                name = each.get_error_hint().split(" / ")[0].strip("'")
                ctx.fail(f"The path {name} is an empty text: give a path (is a shell variable unset?)")
        if self._option is None or self._place is None:
            return super().parse_args(ctx, args)
        ctx.meta[_BY_OPTION] = isinstance(given.get(self._option.name), str)
        rest = super().parse_args(ctx, args)
        name = ctx.params.pop(self._place.name, None)
        if name is not None:
            ctx.params[self._option.name] = name
        if self._is_required and ctx.params[self._option.name] is None and not ctx.resilient_parsing:
            ctx.fail("A dataset is missing: name it as DATASET or by --dataset")
        return rest


def use_dataset_command(*apps: typer.Typer) -> None:
    """Let every command registered on these apps so far also take its dataset as an argument (DatasetCommand)."""
    for app in apps:
        for command in app.registered_commands:
            command.cls = DatasetCommand
