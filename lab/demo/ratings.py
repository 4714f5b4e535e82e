"""Labels and ratings of a candidate caption, computed from its statements. The raters are programs, not people."""

from __future__ import annotations

from itertools import combinations
from random import Random

from lab.demo.describe import describe_clip
from lab.demo.systems import Candidate
from lab.demo.world import ClipStatement, DemoClip

RATERS = ("synthetic_1", "synthetic_2")
ASPECTS = ("coverage", "factuality", "chronology")
RATER_NOISE = 0.3  # standard deviation in rating points, before rounding


def has_statement(candidate: Candidate, statement: ClipStatement) -> bool:
    """Whether the candidate makes exactly this statement. False if it contradicts it or does not mention it."""
    return statement in candidate.statements


def compute_quality(clip: DemoClip, candidate: Candidate) -> dict[str, float]:
    """Return the quality of a candidate caption of a clip, as a dict of three numbers from 0 to 1. "coverage": the
    share of the clip's true statements that it makes. "factuality": the share of its own statements that are true.
    "chronology": how far its sentences about this clip keep the clip's order.

    Chronology is 2c - 1, at least 0, where c is the share of pairs of sentences about this clip that are in the right
    order; it is 0 without a pair. It is weighted by how much of the clip these sentences tell, and by their share of
    the candidate.
    """
    true = [moment.statement for moment in clip.list_moments()]
    claimed = candidate.statements
    places = [place for place in candidate.positions if place is not None]
    pairs = list(combinations(places, 2))
    in_order = sum(first < second for first, second in pairs) / len(pairs) if pairs else 0.5
    share_of_clip = len(places) / len(describe_clip(clip, "faithful"))
    share_of_text = len(places) / len(candidate.positions)
    return {
        "coverage": sum(statement in claimed for statement in true) / len(true),
        "factuality": sum(statement in true for statement in claimed) / len(claimed),
        "chronology": max(0.0, 2 * in_order - 1) * (0.5 + 0.5 * share_of_clip) * (0.5 + 0.5 * share_of_text),
    }


def rate_candidate(clip: DemoClip, candidate: Candidate) -> list[dict[str, object]]:
    """Return six rating rows for a candidate, by two raters for three aspects. A row has rater, aspect, value, a whole
    number from 1 (worst) to 5, and "synthetic": True. The same candidate always gets the same ratings, which are its
    quality with a little noise.
    """
    rows: list[dict[str, object]] = []
    shares = compute_quality(clip, candidate)
    for rater in RATERS:
        rng = Random(f"ratings/{clip.seed}/{candidate.system}/{rater}")
        for aspect in ASPECTS:
            value = round(1 + 4 * shares[aspect] + rng.gauss(0, RATER_NOISE))
            rows.append({"rater": rater, "aspect": aspect, "value": min(5, max(1, value)), "synthetic": True})
    return rows
