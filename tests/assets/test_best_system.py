"""Which system is best: people's ratings first, then metrics, which are trusted for systems by evidence on systems."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from assets.reports.best_system import answer_best_system
from assets.reports.systems import SystemTable
from assets.reports.trust import AspectAgreement
from db.reports.judgements import LABELS_ASPECT
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.conclusions import Conclusion, TrustLevel, explain_system_order
from metrics_core.intervals import ClusterMean

LABEL = {"vcs": "VCS", "ecs": "ECS"}
ENDS = {"overall": 5.0, "accuracy": 5.0}
NO_TRUST: tuple[AspectAgreement, ...] = ()
FIVE = "With 5 systems, a τ-b below 1.00 may be chance; people's own order has p 0.017."


def table(
    means: Mapping[str, Sequence[float | None]], leads: Mapping[str, float], n_videos: int = 30, kind: str = "caption"
) -> SystemTable:
    """Means by column of the systems a, b, c and so on; None for no value."""
    systems = tuple("abcdefgh"[: max(map(len, means.values()))])
    of = {
        system: {
            column: ClusterMean(None, None, None, 0, 0)
            if (mean := row[place]) is None
            else ClusterMean(mean, mean - 0.1, mean + 0.1, n_videos, n_videos)
            for column, row in means.items()
        }
        for place, system in enumerate(systems)
    }
    return SystemTable(kind, systems, tuple(means), of, n_videos, 0, leads)


def aspect(
    name: str = "overall",
    *,
    level: TrustLevel = "baseline",
    orders: Mapping[str, AgreementRow] | None = None,
    synthetic: bool = False,
    n_videos: int = 30,
) -> AspectAgreement:
    """An aspect with 90 ratings; orders: how alike metrics and people rank systems."""
    found = {metric: replace(row, metric=metric, n_videos=n_videos) for metric, row in (orders or {}).items()}
    nothing: dict[str, Any] = dict.fromkeys(
        ("missing", "baselines", "raters", "ties", "beside_rater", "fewer", "orders", "rows"), ()
    )
    return AspectAgreement(
        aspect=name,
        n_samples=30,
        n_ratings=90,
        n_raters=3,
        synthetic=synthetic,
        coefficients={},
        strongest=None,
        ceiling=None,
        careless=(),
        ceiling_without_careless=None,
        verdicts={metric: Conclusion(level, "", "") for metric in found},
        rivals={},
        system_coefficients=found,
        order_verdicts={metric: explain_system_order(each) for metric, each in found.items()},
        references={},
        **nothing,
    )


def trust(*aspects: AspectAgreement) -> tuple[AspectAgreement, ...]:
    return aspects


def order(value: float, low: float, high: float, p: float) -> AgreementRow:
    return AgreementRow("m", "overall", "systems", "people", "kendall_b", value, low, high, p, 5, 30, 0, 0, False)


ALIKE = order(1.0, 0.9, 1.0, 0.017)
AGAINST = order(-1.0, -1.0, -0.9, 0.017)
OPEN = order(0.6, 0.2, 1.0, 0.23)
RATED = table({"overall": [4.7, 4.0, 3.9, 3.0, 2.0]}, {"overall": 1e-9})
CLOSE = table({"overall": [4.1, 4.0, 3.9, 3.0, 2.0]}, {"overall": 0.4})
SCORED = table({"vcs": [0.5, 0.6, 0.3, 0.2, 0.1]}, {"vcs": 0.01})


def test_people_come_before_a_metric_that_says_otherwise() -> None:
    found = answer_best_system(trust(aspect(orders={"vcs": OPEN})), [SCORED], [RATED], LABEL, ENDS)
    assert (found.light, found.headline) == ("good", "a")
    assert found.sentences == (
        "Best by 90 ratings of people (4.70 against 4.00 of 5), by more than chance.",
        "By VCS b is best.",
        "VCS (τ-b 0.60) is not shown to rank the 5 systems as people do: such an order may be chance.",
        FIVE,
    )


def test_ratings_of_a_program_are_named_as_such() -> None:
    found = answer_best_system(trust(aspect(synthetic=True)), [], [RATED], LABEL, ENDS)
    assert found.sentences == ("Best by 90 synthetic ratings (4.70 against 4.00 of 5), by more than chance.",)


def test_several_metrics_stand_in_one_sentence_and_one_against_people_is_named() -> None:
    orders = {"vcs": ALIKE, "ecs": AGAINST}
    found = answer_best_system(trust(aspect(orders=orders)), [SCORED], [RATED], LABEL, ENDS)
    assert found.sentences[2:4] == (
        "VCS (τ-b 1.00) ranks the 5 systems as people do.",
        "ECS (τ-b −1.00) ranks the 5 systems against people's order.",
    )
    both = answer_best_system(trust(aspect(orders={"vcs": ALIKE, "ecs": ALIKE})), [SCORED], [RATED], LABEL, ENDS)
    assert both.sentences[2] == "VCS (τ-b 1.00) and ECS (τ-b 1.00) rank the 5 systems as people do."
    neither = answer_best_system(trust(aspect(orders={"vcs": OPEN, "ecs": OPEN})), [SCORED], [RATED], LABEL, ENDS)
    assert neither.sentences[2:] == ("No metric is shown to rank systems as people do.", FIVE)


def test_many_metrics_and_aspects_without_a_claim_are_one_sentence() -> None:
    orders = {"vcs": OPEN, "ecs": OPEN}
    rated = table({name: [4.1, 4.0] for name in ("accuracy", "style")}, {"accuracy": 0.4, "style": 0.4})
    aspects = trust(aspect("accuracy", orders=orders), aspect("style", orders=orders))
    found = answer_best_system(aspects, [SCORED], [rated], LABEL, ENDS)
    assert found.sentences == (
        "No system clearly leads by 180 ratings of people.",
        "b is best by VCS, which people do not confirm.",
        "No metric is shown to rank systems as people do.",
        FIVE,
    )
    one = trust(aspect("accuracy", orders=orders), aspect("style", orders={"vcs": ALIKE, "ecs": OPEN}))
    assert answer_best_system(one, [SCORED], [rated], LABEL, ENDS).sentences[2:] == (
        "VCS (τ-b 1.00) ranks the 5 systems as people do by style.",
        FIVE,
    )


def test_aspects_that_disagree_depend() -> None:
    rated = table({"accuracy": [4.7, 4.0], "style": [2.0, 4.0]}, {"accuracy": 0.001, "style": 0.001})
    found = answer_best_system(trust(aspect("accuracy"), aspect("style")), [], [rated], LABEL, ENDS)
    assert (found.light, found.headline) == ("middle", "It depends")
    assert found.sentences == (
        "a is best by 90 ratings of people for accuracy.",
        "b is best by 90 ratings of people for style.",
    )


def test_an_aspect_without_a_clear_lead_takes_nothing_from_a_clear_one() -> None:
    rated = table({"accuracy": [4.7, 4.0], LABELS_ASPECT: [0.5, 0.6]}, {"accuracy": 0.001, LABELS_ASPECT: 0.5})
    found = answer_best_system(trust(aspect("accuracy"), aspect(LABELS_ASPECT)), [], [rated], LABEL, ENDS)
    assert (found.headline, found.sentences[0]) == (
        "a", "Best by 90 ratings of people for accuracy (4.70 against 4.00 of 5), by more than chance."
    )  # fmt: skip


def test_labels_are_no_ratings() -> None:
    rated = table({LABELS_ASPECT: [0.9, 0.6]}, {LABELS_ASPECT: 0.001})
    found = answer_best_system(trust(aspect(LABELS_ASPECT)), [], [rated], LABEL, ENDS)
    assert found.sentences == ("Best by labelled coverage (0.90 against 0.60), by more than chance.",)


def test_systems_without_a_rating_are_counted() -> None:
    found = answer_best_system(
        trust(aspect()), [SCORED], [table({"overall": [4.7, 4.0, None, None]}, {"overall": 0.001})], LABEL, ENDS
    )
    assert (found.light, found.headline) == ("middle", "a")
    assert found.sentences[0] == (
        "Best of the 2 rated systems by 90 ratings of people (4.70 against 4.00 of 5), by more than chance; "
        "3 more have no rating."
    )


def test_where_people_leave_it_open_a_metric_that_ranks_systems_as_they_do_answers() -> None:
    found = answer_best_system(trust(aspect(orders={"vcs": ALIKE})), [SCORED], [CLOSE], LABEL, ENDS)
    assert (found.light, found.headline) == ("good", "b")
    assert found.sentences == (
        "No system clearly leads by 90 ratings of people.",
        "Best by VCS, by more than chance.",
        "VCS (τ-b 1.00) ranks the 5 systems as people do.",
        FIVE,
    )


@pytest.mark.parametrize(
    ("level", "light", "headline", "second"),
    [
        ("ceiling", "middle", "b", "Best by VCS, trusted for captions only."),
        (
            "below baseline",
            "open",
            "Open",
            "b is best by VCS, which people do not confirm.",
        ),
    ],
)
def test_what_a_metric_knows_of_captions_is_no_evidence_on_systems(
    level: TrustLevel, light: str, headline: str, second: str
) -> None:
    found = answer_best_system(trust(aspect(level=level, orders={"vcs": OPEN})), [SCORED], [CLOSE], LABEL, ENDS)
    assert (found.light, found.headline, found.sentences[1]) == (light, headline, second)


def test_a_metric_against_people_is_not_trusted_for_systems_whatever_it_knows_of_captions() -> None:
    found = answer_best_system(trust(aspect(level="ceiling", orders={"vcs": AGAINST})), [SCORED], [CLOSE], LABEL, ENDS)
    assert (found.light, found.headline) == ("open", "Open")


def test_few_videos_and_one_rated_system_leave_it_open() -> None:
    few = table({"overall": [4.7, 4.0]}, {"overall": 1e-9}, n_videos=9)
    found = answer_best_system(trust(aspect()), [], [few], LABEL, ENDS)
    assert (found.light, found.sentences[0]) == (
        "open",
        "Which system is best by 90 ratings of people is open: 9 videos, 10 needed.",
    )
    one = table({"overall": [4.7, None]}, {"overall": 1e-9})
    found = answer_best_system(trust(aspect()), [SCORED], [one], LABEL, ENDS)
    assert found.sentences[0] == "Systems cannot be compared by 90 ratings of people: a is the only judged system."


def test_without_people_metrics_name_a_system_as_an_open_question() -> None:
    found = answer_best_system(NO_TRUST, [SCORED], [], LABEL, ENDS)
    assert (found.light, found.headline) == ("open", "Open")
    assert found.sentences == ("b is best by VCS, which no ratings or labels confirm.",)
    assert answer_best_system(NO_TRUST, [], [], LABEL, ENDS).headline == "Open"
    assert answer_best_system(NO_TRUST, [table({"vcs": [0.5]}, {})], [], LABEL, ENDS).headline == "Nothing to compare"
