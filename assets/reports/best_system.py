"""Decides which system is best, first by people's ratings, then by metrics, and whether metrics rank systems as people
do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from assets.reports.answer_records import ReportAnswer, TrafficLight
from assets.reports.systems import SystemTable
from assets.reports.trust import AspectAgreement, explain_system_orders, format_aspect
from assets.words.labels import format_rating
from assets.words.text import format_count, format_number, group_names, join_names
from db.reports.judgements import LABELS_ASPECT
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.coefficients import FEWEST_SYSTEMS
from metrics_core.agreement.conclusions import (
    BETTER_THAN_SIMPLE,
    MAX_P_VALUE,
    explain_few_systems,
    explain_too_few_videos,
)


@dataclass(frozen=True, slots=True)
class Leader:
    """The system with the highest mean in one column of a system table, and a sentence on how sure its lead is. column:
    a metric, or an aspect of ratings. is_best: whether the lead is more than chance by the table's p-value, on at least
    10 videos (FEWEST_VIDEOS).
    """

    column: str
    system: str
    is_best: bool
    sentence: str


def list_leaders(table: SystemTable, labels: Mapping[str, str]) -> list[Leader]:
    """Return the leading system of every column of a table of means, in column order. Columns without any value are
    left out. labels: for every column its name in the sentences.
    """
    columns = [name for name in table.columns if any(table.means[system][name].n for system in table.systems)]
    return [_build_leader(table, column, labels[column]) for column in columns]


def list_people_leaders(table: SystemTable) -> list[Leader]:
    """Return the leading system by every aspect of a table of mean ratings, in column order. Aspects without any value
    are left out. The sentences name the aspects: `Rated fluency: ...`.
    """
    shown = ((aspect, format_aspect(aspect)) for aspect in table.columns)
    return list_leaders(
        table, {aspect: words.capitalize() if aspect == LABELS_ASPECT else f"Rated {words}" for aspect, words in shown}
    )


def _build_leader(table: SystemTable, column: str, label: str) -> Leader:
    """Return the leader of a column that has a value, and why its lead may be chance."""
    means = {system: table.means[system][column] for system in table.systems}
    ranked = sorted((s for s in means if means[s].n), key=lambda s: -(means[s].mean or 0.0))
    without = [system for system in means if not means[system].n]
    note = f" Without a value: {', '.join(without[:6])}{' …' if len(without) > 6 else ''}." if without else ""
    first, chance = ranked[0], table.leads[column]
    if len(ranked) < 2:
        return Leader(column, first, False, f"{label}: only {first} has values, so there is nothing to compare.{note}")
    leads = f"{label}: {first} has the highest mean"
    if few := explain_too_few_videos(min(means[system].n_clusters for system in ranked[:2])):
        return Leader(column, first, False, f"{leads}; whether it is best is open: {few}.{note}")
    if chance is None or chance > MAX_P_VALUE:
        return Leader(column, first, False, f"{leads}, but may not be better than {ranked[1]}.{note}")
    return Leader(column, first, True, f"{label}: {first} is best.{note}")


def answer_best_system(
    trust: Sequence[AspectAgreement],
    tables: Sequence[SystemTable],
    people: Sequence[SystemTable],
    labels: Mapping[str, str],
    scale_ends: Mapping[str, float],
) -> ReportAnswer:
    """Build the answer to "which system is best?": by people's ratings if a lead is more than chance, else by metrics.
    It names its judgements or metrics, and those that disagree. trust: how metrics agree with people.
    tables, people: the systems' means by metrics and by ratings, by kind of samples. labels: names of metrics.

    scale_ends: as from `load_scale_ends`. The kind that people judged counts, and of several kinds captions.
    """
    kind = next((table.kind for table in (*people, *tables)), None)
    rated = next((table for table in people if table.kind == kind), None)
    scored = next((table for table in tables if table.kind == kind), None)
    systems = dict.fromkeys(system for table in (rated, scored) if table for system in table.systems)
    if not systems:
        return ReportAnswer("open", "Open", ("No system can be compared: no sample has a score with a value.",))
    if len(systems) == 1:
        return ReportAnswer("open", "Nothing to compare", (f"{next(iter(systems))} is the only system with values.",))
    metric_leaders = list_leaders(scored, labels) if scored and len(scored.systems) > 1 else []
    ranks = tuple(_explain_rankings(trust, labels))
    if rated and (by_people := _answer_by_people(rated, trust, len(systems), scale_ends)):
        winners = {leader.system for leader in list_people_leaders(rated) if leader.is_best}
        others = group_names({labels[leader.column]: leader.system for leader in metric_leaders if leader.is_best})
        dissent = (
            f"By {join_names(names)} {system} is best." for system, names in others.items() if {system} != winners
        )
        return ReportAnswer(by_people.light, by_people.headline, (*by_people.sentences, *dissent, *ranks))
    by_metrics = _answer_by_metrics(metric_leaders, trust, labels)
    first = (_explain_open_by_people(rated, trust),) if rated else ()
    return ReportAnswer(by_metrics.light, by_metrics.headline, (*first, *by_metrics.sentences, *ranks))


def _answer_by_people(
    rated: SystemTable, trust: Sequence[AspectAgreement], n_systems: int, scale_ends: Mapping[str, float]
) -> ReportAnswer | None:
    """Return the system that people rate best; None where no lead is more than chance."""
    clear = group_names({leader.column: leader.system for leader in list_people_leaders(rated) if leader.is_best})
    if not clear:
        return None
    n_rated = sum(any(mean.n for mean in rated.means[system].values()) for system in rated.systems)
    among = f" of the {n_rated} rated systems" if n_rated < n_systems else ""
    rest = f"; {n_systems - n_rated} more {'has' if n_systems - n_rated == 1 else 'have'} no rating" if among else ""
    if len(clear) == 1:
        ((system, aspects),) = clear.items()
        means = f" ({_format_two_highest_means(rated, aspects[0], scale_ends)})" if len(aspects) == 1 else ""
        sentence = f"Best{among} by {_format_judgements(trust, aspects)}{means}, by more than chance{rest}."
        return ReportAnswer("middle" if among else "good", system, (sentence,))
    sentences = [
        f"{system} is best{among} by {_format_judgements(trust, aspects)}." for system, aspects in clear.items()
    ]
    return ReportAnswer("middle", "It depends", tuple(sentences))


def _format_two_highest_means(rated: SystemTable, aspect: str, scale_ends: Mapping[str, float]) -> str:
    """Return the two highest mean ratings of an aspect as text: `4.77 against 4.06 of 5`."""
    known = [mean for system in rated.systems if (mean := rated.means[system][aspect].mean) is not None]
    highest = " against ".join(format_number(mean) for mean in sorted(known, reverse=True)[:2])
    return format_rating(highest, aspect, scale_ends)


def _format_judgements(trust: Sequence[AspectAgreement], aspects: Sequence[str]) -> str:
    """Return how many judgements of some aspects there are: `5,400 ratings of people`. Names the aspects if others are
    judged.
    """
    judged = [aspect for aspect in trust if aspect.aspect in aspects]
    ratings = [aspect for aspect in judged if aspect.aspect != LABELS_ASPECT]
    thing, whose = ("synthetic rating", "") if any(aspect.synthetic for aspect in ratings) else ("rating", " of people")
    n = f"{format_count(sum(aspect.n_ratings for aspect in ratings), thing)}{whose}"
    by = f" for {join_names([aspect.aspect for aspect in ratings])}" if len(judged) < len(trust) else ""
    parts = [f"{n}{by}"] if ratings else []
    return (
        join_names([*parts, *("labelled coverage" for aspect in judged if aspect.aspect == LABELS_ASPECT)])
        or "ratings of people"
    )


def _explain_open_by_people(rated: SystemTable, trust: Sequence[AspectAgreement]) -> str:
    """Return a sentence on why judgements do not show which system is best."""
    who = _format_judgements(trust, rated.columns)
    judged = [system for system in rated.systems if any(mean.n for mean in rated.means[system].values())]
    if len(judged) == 1:
        return f"Systems cannot be compared by {who}: {judged[0]} is the only judged system."
    if few := explain_too_few_videos(rated.n_videos):
        return f"Which system is best by {who} is open: {few}."
    return f"No system clearly leads by {who}."


def _answer_by_metrics(
    leaders: Sequence[Leader], trust: Sequence[AspectAgreement], labels: Mapping[str, str]
) -> ReportAnswer:
    """Return the system that metrics score best.

    Metrics that rank systems as people do decide; without these, those trusted for captions, and then all others, where
    the answer stays open. leaders: by metric.
    """
    if not leaders:
        return ReportAnswer("open", "Open", ("No systems can be compared: no metric has scores of two systems.",))
    orders = [(name, conclusion.level) for item in trust for name, conclusion in item.order_verdicts.items()]
    alike, against = ({name for name, order in orders if order == order_name} for order_name in ("alike", "against"))
    trusted = {
        name for item in trust for name, conclusion in item.verdicts.items() if conclusion.level in BETTER_THAN_SIMPLE
    }
    tiers: tuple[tuple[set[str], TrafficLight, str], ...] = (
        (alike - against, "good", ", by more than chance"),
        (trusted - against, "middle", ", trusted for captions only"),
    )
    for names, light, why in tiers:
        winners = _list_winners((item for item in leaders if item.column in names), labels)
        if len(winners) == 1:
            ((system, by),) = winners.items()
            return ReportAnswer(light, system, (f"Best by {join_names(by)}{why}.",))
        if winners:
            return ReportAnswer(
                "middle",
                "It depends",
                tuple(f"{system} is best by {join_names(by)}." for system, by in winners.items()),
            )
    winners = _list_winners(leaders, labels)
    if not winners:
        return ReportAnswer("open", "Open", ("No system leads by more than chance in the scores of any metric.",))
    led = "; ".join(f"{system} is best by {join_names(by)}" for system, by in winners.items())
    why = "people do not confirm" if trust else "no ratings or labels confirm"
    return ReportAnswer("open", "Open", (f"{led}, which {why}.",))


def _list_winners(leaders: Iterable[Leader], labels: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names of the metrics by which a system is best by more than chance, by system."""
    return group_names({labels[leader.column]: leader.system for leader in leaders if leader.is_best})


def _explain_rankings(trust: Sequence[AspectAgreement], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences on which metrics rank systems as people do, or against them, and on how little few systems can
    show.

    Metrics that are shown to do neither share one sentence; the section on trust has the reasons.
    """
    ranked = [(aspect, _select_system_coefficients(aspect)) for aspect in trust]
    judged = [
        (aspect, name)
        for aspect, coefficients in ranked
        for name, coefficient in coefficients.items()
        if coefficient.n >= FEWEST_SYSTEMS
    ]
    shown = [(aspect, name) for aspect, name in judged if aspect.order_verdicts[name].level != "open"]
    mentioned = judged if len(judged) == 1 else shown
    if judged and not mentioned:
        yield "No metric is shown to rank systems as people do."
    for aspect, coefficients in ranked:
        conclusions = {name: aspect.order_verdicts[name] for owner, name in mentioned if owner is aspect}
        by = f" by {format_aspect(aspect.aspect)}" if len(trust) > 1 else ""
        yield from (f"{clause}{by}." for clause in explain_system_orders(conclusions, coefficients, labels))
    most = max((coefficient.n for _, coefficients in ranked for coefficient in coefficients.values()), default=0)
    if most > 1 and (few := explain_few_systems(most)):
        yield few


def _select_system_coefficients(aspect: AspectAgreement) -> dict[str, AgreementRow]:
    """Return how well each metric's order of systems matches people's, of metrics with enough videos for a
    conclusion.
    """
    return {
        name: coefficient
        for name, coefficient in aspect.system_coefficients.items()
        if name in aspect.order_verdicts
        and coefficient.value is not None
        and not explain_too_few_videos(coefficient.n_videos)
    }
