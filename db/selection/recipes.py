"""A recipe: all that a selection asks for. The same recipe over the same scores gives the same selection."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from db.selection.filters import list_column_names
from db.spelling import suggest_name

SAMPLE_KINDS = ("caption", "qa")
"""The kinds of samples; a recipe without a kind takes the first."""
REST_QUOTA = "*"
"""Key in `quotas` for all strata without a quota of their own."""

Name = Annotated[str, Field(min_length=1)]
Number = Annotated[float, Field(allow_inf_nan=False)]
# Within these limits sums of ranks times weights stay finite, and few decimals keep equal means equal.
Weight = Annotated[float, Field(ge=1e-6, le=1e6)]
# Fields that a plain recipe may have in addition to `by`.
_OF_PLAIN = ("where", "keep", "stale", "combine", "kind")
# The highest number that Postgres and a row of an export can hold.
_MOST = 2**63 - 1

_WANTED = {
    "by": "give a metric, or several with their weights from 1e-6 to 1e6, such as {ecs: 2, vcs: 1}",
    "combine": "give ranks or values",
    "kind": "give caption, qa or all",
    "where": "give a condition as text",
    "at_least": "give a number, or the objective of a stored threshold, for every metric, such as {vcs: 0.3}",
    "dedupe": "give a cosine above 0 and at most 1",
    "dedupe_videos": "give a similarity above 0 and at most 1, such as 0.6",
    "video_encoder": "give the name of an encoder in the manifest's table vectors",
    "choose": "give best, random or diverse",
    "seed": "give a whole number, 0 or more",
    "keep": "give the share to keep, above 0 and at most 1, such as 0.125",
    "count": "give a whole number of samples, 1 or more",
    "per": "give the name of a column",
    "bands": "give the limits of the bands in a list, such as [10, 30, 60]",
    "quotas": "give a whole number of samples by stratum, names in quotes, such as {'brief': 100, '2001': 5, '*': 10}",
    "stale": "give refuse or leave_out",
}


WITHOUT_TIES = ": of samples that share the cut's value those that are taken are drawn by seed, so leave it out"


class SelectionError(ValueError):
    """Raised for a selection that cannot be made; the message gives the reason and the remedy."""

    plain = True


class SizeMissing(SelectionError):
    """Raised for a recipe that does not limit how many samples it takes; the message shows how many each share would
    keep.
    """


class Recipe(BaseModel):
    """A rule for a selection: which samples pass (`where`, `at_least`), by which columns they are ranked (`by`), how
    many are taken (`keep`, `count`, `quotas`), and whether these are the best, a random draw or a diverse subset
    (`choose`). A recipe without keep, count, quotas and at_least has no size yet, and nothing can be selected by it.

    by: a metric or another number column, or several with their weights; the weight of a single one is always 1.
    combine: what a weighted mean is taken of, the ranks of the values or the values themselves. kind: captions or
    question-answer pairs, whose values are on scales of their own. None: captions where both could be taken, and both
    with `per: kind`. "all": both in one list. where: a condition of the filter language. at_least: the lowest value by
    column, as a number, or as the objective of a stored threshold, such as "keep 0.25". dedupe: a cosine; of two
    samples whose texts are that similar the better one stays. dedupe_videos: a similarity of signatures; of two videos
    that are copies the one with the better sample stays, with all its samples. video_encoder: the encoder whose
    vectors, brought by the manifest, `dedupe_videos` compares instead. choose: the best, a random draw (`seed`), or a
    diverse subset of the rest. keep, count: the share or number to take, in all or, with `per`, of each stratum or
    divided over the strata. per: the column whose values are the strata; bands: the inner limits of bands, where it is
    a number. quotas: a number of samples by stratum; "*" is the most that every other stratum sends. stale: whether
    samples with a stale score stop the selection or are left out.

    Where the size ends among samples of equal value, `seed` draws those that are taken.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    by: dict[Name, Weight] = Field(default={"vcs": 1.0}, min_length=1)
    combine: Literal["ranks", "values"] = "ranks"
    kind: Literal["caption", "qa", "all"] | None = None
    where: str | None = None
    at_least: dict[Name, Number | str] = Field(default={})
    dedupe: Annotated[float, Field(gt=0, le=1)] | None = None
    dedupe_videos: Annotated[float, Field(gt=0, le=1)] | None = None
    video_encoder: Name | None = None
    choose: Literal["best", "random", "diverse"] = "best"
    seed: int = Field(default=0, ge=0, le=_MOST)
    keep: Annotated[float, Field(gt=0, le=1)] | None = None
    count: Annotated[int, Field(ge=1, le=_MOST)] | None = None
    per: Name | None = None
    bands: list[Number] = Field(default=[])
    quotas: dict[str, Annotated[int, Field(ge=0, le=_MOST)]] = Field(default={})
    stale: Literal["refuse", "leave_out"] = "refuse"

    @field_validator("by", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {value: 1.0}
        if isinstance(value, list) and all(isinstance(name, str) for name in value):
            if len(set(value)) < len(value):
                raise ValueError("a column is named twice: leave one out")
            return dict.fromkeys(value, 1.0)
        return value

    @field_validator("by")
    @classmethod
    def _weigh_a_single_column_1(cls, value: dict[str, float]) -> dict[str, float]:
        """A single column is ranked as it is, so that recipes with any weight of it are one recipe."""
        return value if len(value) > 1 else dict.fromkeys(value, 1.0)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> Recipe:
        if self.keep is not None and self.count is not None:
            raise ValueError("keep and count are both given: leave one out")
        if self.quotas and not self.per:
            raise ValueError("quotas are given without the column of their values: give per, such as per: system")
        if self.bands and not self.per:
            raise ValueError("bands are given without the column that they divide: give per, such as per: duration_s")
        if self.bands != sorted(set(self.bands)):
            raise ValueError("bands must rise from limit to limit, such as [10, 30, 60]")
        if self.quotas and (self.keep is not None or self.count is not None):
            size = "count" if self.keep is None else "keep"
            raise ValueError(f"quotas set the size, and {size} is given too: leave {size} out")
        if self.video_encoder is not None and self.dedupe_videos is None:
            raise ValueError(
                "video_encoder is given without dedupe_videos, which compares its vectors: give dedupe_videos too"
            )
        return self

    @property
    def column_names(self) -> set[str]:
        """All columns that the recipe names in `by`, `at_least`, `per` and `where`; those of the condition `where` in
        lower case.
        """
        return {*self.by, *self.at_least, *list_column_names(self.where or ""), *([self.per] if self.per else [])}

    @property
    def has_size(self) -> bool:
        """Whether the recipe limits what it takes: one of keep, count, quotas and at_least is given."""
        return self.keep is not None or self.count is not None or bool(self.quotas) or bool(self.at_least)

    @property
    def needs_vectors(self) -> bool:
        """Whether samples are compared by the vectors of their texts: `dedupe` is given, or `choose` is "diverse"."""
        return self.dedupe is not None or self.choose == "diverse"

    @property
    def needs_order(self) -> bool:
        """Whether samples with equal values must be put in order too, since samples are compared with better ones:
        `dedupe` or `dedupe_videos` is given, or `choose` is "diverse".
        """
        return self.needs_vectors or self.dedupe_videos is not None

    @property
    def is_plain(self) -> bool:
        """Whether the recipe takes a share (`keep`) of the best by one column, with the other fields at their default
        except `where`, `stale`, `combine` and `kind`.
        """
        default = Recipe(by=self.by, **{name: getattr(self, name) for name in _OF_PLAIN})
        return len(self.by) == 1 and self.keep is not None and self == default

    def spec(self) -> dict[str, Any]:
        """Return the recipe as plain data, from which `parse_recipe` makes an equal recipe: without fields at their
        default; `by` is always there, as a name if it is one column.
        """
        fields = self.model_dump(exclude_defaults=True)
        name, *further = self.by
        fields["by"] = dict(self.by) if further else name
        return fields


def parse_recipe(fields: Any) -> Recipe:
    """Return the recipe for a mapping of fields to values; fields left out have their default. Raises SelectionError,
    with the name of the field, for an unknown field or a wrong value.

    >>> parse_recipe({"by": {"ecs": 2, "vcs": 1}, "count": 100}).by
    {'ecs': 2.0, 'vcs': 1.0}
    >>> parse_recipe({"by": "vcs", "kep": 0.5})
    Traceback (most recent call last):
    db.selection.recipes.SelectionError: the recipe has no field 'kep', did you mean 'keep'?
    """
    if not isinstance(fields, Mapping):
        raise SelectionError("a recipe is a mapping of fields to values, such as by: vcs")
    for name in fields:
        if name not in Recipe.model_fields:
            is_ties = name == "ties"
            hint = WITHOUT_TIES if is_ties else suggest_name(str(name), Recipe.model_fields)
            raise SelectionError(f"the recipe has no field {str(name)[:40]!r}{hint}")
    try:
        return Recipe.model_validate(dict(fields))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        if not fault["loc"]:
            raise SelectionError(f"the recipe: {fault['msg'].removeprefix('Value error, ')}") from error
        field = str(fault["loc"][0])
        value = fields[field] if isinstance(fields[field], dict | list) else fault["input"]
        raise SelectionError(f"the recipe's {field} is {_format_value(value)!r}: {_WANTED[field]}") from error


def _format_value(value: Any) -> str:
    try:
        return str(value)[:80]
    except ValueError:  # Python prints no whole number of more than 4,300 digits.
        return "a number of thousands of digits"


def build_recipe(spec: Mapping[str, Any]) -> Recipe:
    """Return the recipe that would make a stored selection again from the same scores. `spec` is as for `convert_rule`.
    Raises SelectionError for a rule that recipes no longer have.
    """
    fields = convert_rule(spec)
    return parse_recipe(fields)


def convert_rule(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return a recipe, as plain data for `parse_recipe`, that would make a stored selection again from the same scores.
    `spec` is column `spec` of table `selection`. A stored threshold becomes the number that it was then.
    """
    recipe = {name: value for name, value in spec.items() if name in Recipe.model_fields and value is not None}
    if cuts := spec.get("cuts"):
        recipe["at_least"] = recipe["at_least"] | {name: cut["at_least"] for name, cut in cuts.items()}
    return recipe
