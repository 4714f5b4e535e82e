"""What becomes of samples that share the value at which the size of a selection ends."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from db.selection.recipes import Recipe, SelectionError

ALL = "all"
"""The stratum of a recipe without strata."""
# At most one sample in so many, 5 %, may be taken before its equals by nothing but its id.
_FEWEST = 20


@dataclass(frozen=True, slots=True)
class SizeCut:
    """The value at which the size asked for ends within a stratum, and how many samples lie there.

    stratum: its name. value: that of the worst of the `n_asked` best samples. n_above: how many samples have a higher
    value, n_at: how many have exactly this one.
    """

    stratum: str
    value: float
    n_asked: int
    n_above: int
    n_at: int

    @property
    def n_tied(self) -> int:
        """How many of the samples asked for have the value of the cut."""
        return self.n_asked - self.n_above

    @property
    def n_left(self) -> int:
        """How many samples with the value of the cut are more than asked for."""
        return self.n_at - self.n_tied

    @property
    def is_arbitrary(self) -> bool:
        """Whether more than 5 % of the samples asked for would be taken before their equals by their ids.

        >>> SizeCut("all", 0.0, 20, 19, 2).is_arbitrary, SizeCut("all", 0.0, 20, 18, 3).is_arbitrary
        (False, True)
        >>> SizeCut("all", 0.0, 20, 18, 2).is_arbitrary  # all that share the value are taken
        False
        """
        return self.n_left > 0 and self.n_tied * _FEWEST > self.n_asked

    def n_taken(self, ties: str) -> int:
        """How many samples of the stratum a recipe with these `ties` takes.

        >>> cut = SizeCut("all", 0.0, n_asked=20, n_above=18, n_at=5)
        >>> [cut.n_taken(ties) for ties in ("random", "include", "exclude")]
        [20, 23, 18]
        """
        if ties == "include":
            return self.n_above + self.n_at
        return self.n_above if ties == "exclude" and self.n_left else self.n_asked


def check_ties(recipe: Recipe, cuts: Sequence[SizeCut]) -> None:
    """Raise SelectionError where more than 5 % of a stratum's samples would be chosen by their ids among equals.

    A recipe that says what to do with ties is never refused.
    """
    arbitrary = [cut for cut in cuts if cut.is_arbitrary]
    if recipe.ties != "refuse" or not arbitrary:
        return
    worst = max(arbitrary, key=lambda cut: cut.n_tied / cut.n_asked)
    have = "has" if worst.n_tied == 1 else "have"
    where = f" in {recipe.per} {worst.stratum!r}" if recipe.per else ""
    others = f" ({len(arbitrary)} strata have such ties)" if len(arbitrary) > 1 else ""
    more, fewer = (sum(cut.n_taken(ties) for cut in cuts) for ties in ("include", "exclude"))
    raise SelectionError(
        f"nothing is selected: {worst.n_tied:,} of the {worst.n_asked:,} best by {' and '.join(recipe.by)}{where} "
        f"{have} the same value, {worst.value:.4g}, as {worst.n_left:,} more, so that only their ids would choose"
        f"{others}: set ties (--ties) to random (drawn by seed), include (takes {more:,}) or exclude (takes {fewer:,})"
    )


def count_ties(cuts: Sequence[SizeCut], ties: str) -> tuple[int, int]:
    """How many samples that have the value of their stratum's cut are taken with these `ties`, and how many are left.

    >>> count_ties([SizeCut("a", 0.0, 20, 18, 5), SizeCut("b", 0.5, 4, 3, 1)], "include")
    (6, 0)
    """
    n_tied = sum(cut.n_taken(ties) - cut.n_above for cut in cuts)
    return n_tied, sum(cut.n_at for cut in cuts) - n_tied
