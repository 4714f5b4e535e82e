"""The terms of a promise about a selection: how many errors at most, what an error is, and who answers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from assets.ingest.scales import Scale
from db.selection.recipes import Recipe, SelectionError, parse_recipe
from metrics_core.promise import DEFAULT_SHARES

JUDGE = "judge"
"""The metric that answers in place of people."""
_OF_JUDGE = frozenset({JUDGE, f"{JUDGE}_status", f"{JUDGE}_models"})
# With less, no number of captions is enough, and rounding decides.
_LEAST = 1e-9


@dataclass(frozen=True, slots=True)
class PromiseTerms:
    """A promise: at most the share `limit` of a selection's samples are errors, with this `confidence`, both in (0, 1).
    An answer below `error_below` is an error: the mean of the first `n_raters` ratings for `aspect`, or the judge's
    score where that is None. shares: of the recipe's order, rising, tried in turn. seed: of the order of asking.
    """

    limit: float
    error_below: float
    aspect: str | None = None
    confidence: float = 0.95
    n_raters: int = 1
    shares: tuple[float, ...] = DEFAULT_SHARES
    seed: int = 0

    @property
    def level(self) -> float:
        """The highest chance that one of all attempts on the same answers breaks its promise."""
        return round(1 - self.confidence, 12)

    def explain_error(self) -> str:
        """Return a phrase that says what an error is."""
        if self.aspect is None:
            return f"a score of {JUDGE} below {self.error_below:g}"
        several = f"a mean of the first {self.n_raters} ratings" if self.n_raters > 1 else "a rating"
        return f"{several} of {self.aspect} below {self.error_below:g}"

    def build_record(self, recipe: Recipe) -> dict[str, Any]:
        """Return the terms with a recipe as plain data, as table `promise` keeps them; see `parse_record`."""
        return {**asdict(self), "shares": list(self.shares), "recipe": recipe.spec()}


def parse_record(record: Mapping[str, Any]) -> tuple[PromiseTerms, Recipe]:
    """Return the terms and the recipe of plain data that `PromiseTerms.build_record` made."""
    fields = {name: value for name, value in record.items() if name != "recipe"}
    return PromiseTerms(**{**fields, "shares": tuple(fields["shares"])}), parse_recipe(record["recipe"])


def check_terms(terms: PromiseTerms, recipe: Recipe) -> None:
    """Raise SelectionError for numbers that no promise can have, and for a recipe with a size of its own or one that
    knows the answers.
    """
    if not 0 < terms.confidence < 1:
        raise SelectionError(f"--confidence is {terms.confidence:g}: give a probability between 0 and 1, such as 0.95")
    if terms.level < _LEAST:
        raise SelectionError(f"--confidence is {terms.confidence}: give a probability of at most {1 - _LEAST}")
    if not _LEAST <= terms.limit < 1:
        raise SelectionError(
            f"--errors-at-most is {terms.limit:g}: give a share of at least {_LEAST:g} and below 1, such as 0.05"
        )
    if not math.isfinite(terms.error_below):
        raise SelectionError(
            f"--error-below is {terms.error_below:g}: give the lowest answer that is not an error, such as 3"
        )
    if terms.aspect is None and not 0 < terms.error_below <= 1:
        raise SelectionError(
            f"--error-below is {terms.error_below:g}: give a number above 0 and at most 1, since scores of {JUDGE} go "
            "from 0 to 1"
        )
    _check_shares(terms.shares)
    if recipe.keep is not None or recipe.count is not None or recipe.quotas:
        raise SelectionError("a promise sets the size of a selection: leave keep, count and quotas out")
    if uses_answers(recipe, terms.aspect):
        if terms.aspect is None:
            raise SelectionError(f"the recipe names {JUDGE}, whose scores the promise counts: choose by other columns")
        raise SelectionError(
            f"the recipe uses ratings of {terms.aspect}, which the promise counts: choose by other columns, or promise "
            "by another aspect"
        )


def check_scale(terms: PromiseTerms, scale: Scale) -> None:
    """Raise SelectionError where `error_below` does not split the scale of a promise's ratings in two, or the lowest
    number of this scale is best.
    """
    least, most = scale.least, scale.most
    if scale.lowest_is_best:
        raise SelectionError(
            f"the lowest rating of {terms.aspect} is best, and a promise counts ratings below a number as errors: "
            "promise by another aspect"
        )
    if least is not None and most is not None and not least < terms.error_below <= most:
        raise SelectionError(
            f"--error-below is {terms.error_below:g}: give a number above {least:g} and at most {most:g}, since "
            f"ratings go from {least:g} to {most:g}"
        )


def uses_answers(recipe: Recipe, aspect: str | None) -> bool:
    """Whether a recipe chooses by ratings for this aspect, or by a threshold that was made from them; if `aspect` is
    None, by the judge's scores, their status or their models.

    >>> uses_answers(parse_recipe({"by": "vcs", "at_least": {"vcs": "good overall"}}), "overall")
    True
    """
    if aspect is None:
        return not {name.lower() for name in recipe.column_names}.isdisjoint(_OF_JUDGE)
    is_good = any(least == f"good {aspect}" for least in recipe.at_least.values())
    return is_good or f"rating_{aspect}".lower() in {name.lower() for name in recipe.column_names}


def _check_shares(shares: Sequence[float]) -> None:
    if not shares or list(shares) != sorted(set(shares)) or not 0 < shares[0] <= shares[-1] <= 1:
        given = ",".join(f"{share:g}" for share in shares)
        raise SelectionError(
            f"--shares {given}: give shares above 0 and at most 1 that rise, strictest first, such as 0.125,0.25,0.5,1"
        )
