"""What a report says first: which metric to trust, which system is best, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from assets.agreement.judged import COLUMNS, LABELS
from assets.plan import Plan
from assets.reports.answer import Answer, Answers, Light, Step
from assets.reports.best_system import find_best_system
from assets.reports.facts import (
    AspectFacts,
    DataFacts,
    Described,
    MetricFacts,
    SystemTable,
    TrustFacts,
    aspect_in_words,
)
from assets.reports.labels import shown_name
from assets.reports.text import grouped, listed, percent, quantified
from metrics_core.agreement.verdicts import BETTER_THAN_SIMPLE, Level
from metrics_core.calibration.rated import FEWEST_VIDEOS

LIGHTS: Mapping[Level, Light] = {
    "undefined": "open",
    "open": "open",
    "nothing": "bad",
    "against": "bad",
    "below baseline": "bad",
    "baseline": "middle",
    "above baseline": "good",
    "ceiling": "good",
}
MOST_STEPS = 3
KEPT = 0.25
"""The share of the captions that a proposed selection keeps."""
RATERS_WANTED = 2


def answers(
    dataset: str,
    data: DataFacts,
    described: Described | None,
    plan: Plan,
    metrics: Sequence[MetricFacts],
    trust: TrustFacts,
    tables: Sequence[SystemTable],
    people: Sequence[SystemTable],
) -> Answers:
    """Draw the answers from the facts of a report.

    tables, people: the systems' means by metrics and by ratings, one table for each kind of samples.
    """
    labels, quoted = {metric.name: metric.label for metric in metrics}, shlex.quote(dataset)
    notable = tuple(each.sentence for each in described.notable) if described else ()
    steps = _steps(quoted, data, metrics, trust, labels) if metrics else _first_steps(quoted, described, plan)
    return Answers(
        _trust(metrics, plan, trust, labels),
        find_best_system(trust, tables, people, labels),
        notable,
        tuple(islice(steps, MOST_STEPS)),
    )


def _good(aspect: AspectFacts) -> list[str]:
    """The metrics that can be trusted by an aspect, the highest coefficient first."""
    good = [name for name, found in aspect.verdicts.items() if found.level in BETTER_THAN_SIMPLE]
    return sorted(good, key=lambda name: -(aspect.coefficients[name].value or 0.0))


def _trust(metrics: Sequence[MetricFacts], plan: Plan, trust: TrustFacts, labels: Mapping[str, str]) -> Answer:
    nobody = "There are no ratings and no labels, so nothing tells how far a metric agrees with people."
    if trust.side_by_side:
        nobody = "People compared captions side by side, see below, but rated and labelled none."
    if not metrics:
        unrated = () if trust.aspects else (nobody,)
        return Answer("open", "Nothing is scored", ("No sample has a score yet.", *_needs(plan), *unrated))
    if not trust.aspects:
        return Answer("open", "Open: nobody rated", (nobody,))
    verdicts = [found for aspect in trust.aspects for found in aspect.verdicts.values()]
    if not verdicts:
        return Answer("open", "Open", (trust.age or "No rated sample has a score, so no metric can be compared.",))
    if all(LIGHTS[found.level] == "open" for found in verdicts):
        # Sentences differ from metric to metric; what most have in common stands here, the rest below.
        reasons = [found.short for found in verdicts]
        commonest = max(dict.fromkeys(reasons), key=reasons.count)
        return Answer("open", "Open", (f"{commonest[0].upper()}{commonest[1:]}.",))
    good = {aspect_in_words(each.aspect): [labels[name] for name in _good(each)] for each in trust.aspects}
    first = grouped({aspect: names[0] for aspect, names in good.items() if names})
    headline = "; ".join(f"{name} for {listed(aspects)}" for name, aspects in first.items())
    further = grouped({aspect: listed(names[1:]) for aspect, names in good.items() if names[1:]})
    also = "; ".join(f"{names} for {listed(aspects)}" for names, aspects in further.items())
    sentences = [f"Also {also}."] if also else []
    lacking = {aspect_in_words(each.aspect): _next_best(each, labels) for each in trust.aspects if not _good(each)}
    sentences += [f"For {listed(aspects)} {why}." for why, aspects in grouped(lacking).items()]
    if any(aspect.synthetic for aspect in trust.aspects):
        sentences.append("By ratings of a program, not of people.")
    if first:
        return Answer("good", headline, tuple(sentences))
    if any(_behind(aspect) for aspect in trust.aspects):
        return Answer("middle", "None beats a simple score", tuple(sentences))
    return Answer("bad", "None yet", tuple(sentences))


def _behind(aspect: AspectFacts) -> list[str]:
    """The metrics that order captions as people do, but not clearly better than a simple score; the best first."""
    behind = [name for name, found in aspect.verdicts.items() if found.level in ("baseline", "below baseline")]
    return sorted(behind, key=lambda name: -(aspect.coefficients[name].value or 0.0))


def _next_best(aspect: AspectFacts, labels: Mapping[str, str]) -> str:
    """Say, as what follows an aspect, how the best metric does that is not clearly better than a simple score."""
    if not (names := _behind(aspect)):
        return "no metric is shown to order captions as people do"
    return f"{labels[names[0]]} is {_standing(aspect, names[0])}"


def _standing(aspect: AspectFacts, name: str) -> str:
    """How a metric of `_behind` does: `better than chance, but worse than words in common`."""
    than = "worse than" if aspect.verdicts[name].level == "below baseline" else "not clearly better than"
    return f"better than chance, but {than} {aspect.rivals[name].name}"


def _steps(
    dataset: str, data: DataFacts, metrics: Sequence[MetricFacts], trust: TrustFacts, labels: Mapping[str, str]
) -> Iterator[Step]:
    """What helps most comes first. dataset: quoted for a shell."""
    stale = [metric for metric in metrics if metric.n_stale]
    if any(not metric.is_imported for metric in stale):
        yield Step("Score anew what is stale.", f"reelsieve score --dataset {dataset}")
    if imported := [metric.label for metric in stale if metric.is_imported]:
        yield Step(f"Import again what is stale, by rs.import_scores: {listed(imported)}.")
    if any(metric.n_defined for metric in metrics):
        yield from _more_ratings(dataset, trust)
        yield from _selection(dataset, trust, labels)
    else:
        yield Step("Look at facts, which need neither reference nor model.", f"reelsieve facts --dataset {dataset}")
    if data.synthetic_ratings:
        yield Step("These ratings are made by a program: begin with your own clips.", "reelsieve try FOLDER")
    missing = {metric.label: why for metric in metrics if not metric.n_defined and (why := _commonest(metric))}
    for why, names in grouped(missing).items():
        yield Step(f"{listed(names)} {'has' if len(names) == 1 else 'have'} no value: {why}.")
    if trust.aspects and all(each.n_raters < RATERS_WANTED for each in trust.aspects):
        second = "Let a second person rate the same captions: nothing tells yet how far people agree."
        yield Step(second, _rating(dataset, trust))


def _first_steps(dataset: str, described: Described | None, plan: Plan) -> Iterator[Step]:
    """What to do where nothing is scored yet."""
    if plan.metrics or not plan.needs:
        yield Step("Score the captions.", f"reelsieve score --dataset {dataset}")
    if described is None:
        yield Step("Look at facts, which need neither reference nor model.", f"reelsieve facts --dataset {dataset}")
        return
    yield Step("Look through clips and captions, in the order of any fact.", f"reelsieve look {dataset}")
    if proposed := described.proposed:
        keep = f"--by words --choose random --seed 1 --keep 1 --where {shlex.quote(proposed.condition)}"
        those = quantified(proposed.n, described.n_captions, "caption", "that meets", "that meet")
        yield Step(f"Freeze the {those} a condition on facts.", f"reelsieve select --dataset {dataset} {keep}")
    if plan.needs and not plan.metrics:
        yield Step("Let metrics score: add what one of them needs, as docs/first-dataset.md shows.")


def _needs(plan: Plan) -> list[str]:
    """What the metrics lack that cannot score anything, in sentences."""
    names = grouped({shown_name(metric): lacks for metric, lacks in plan.needs.items()})
    return [f"{listed(metrics)} need{'s' * (len(metrics) == 1)} {lacks}." for lacks, metrics in names.items()]


def _commonest(metric: MetricFacts) -> str | None:
    """The reason why most samples have no value, with its remedy."""
    reasoned = [each for each in metric.statuses if each.reason and each.status not in ("ok", "not_applicable")]
    return max(reasoned, key=lambda each: each.n).reason if reasoned else None


def _rating(dataset: str, trust: TrustFacts) -> str:
    """The command by which people rate what is rated so far, and where nothing is, all in all."""
    aspect = trust.aspects[0].aspect if trust.aspects else "overall"
    return f"reelsieve rate {dataset} {'--keypoints' if aspect == LABELS else f'--aspect {shlex.quote(aspect)}'}"


def _more_ratings(dataset: str, trust: TrustFacts) -> Iterator[Step]:
    """Ask for ratings where too few leave everything open."""
    command = _rating(dataset, trust)
    n_videos = max((n for aspect in trust.aspects for n in aspect.n_videos.values()), default=0)
    levels = {found.level for aspect in trust.aspects for found in aspect.verdicts.values()}
    if not trust.aspects:
        who = f"Let two people rate captions of {FEWEST_VIDEOS} videos or more"
        yield Step(f"{who}, in a browser or as `ratings` of the manifest: they tell which metric to trust.", command)
    elif levels and n_videos < FEWEST_VIDEOS:
        yield Step(
            f"Rate captions of {FEWEST_VIDEOS - n_videos} more videos: below {FEWEST_VIDEOS} nothing is claimed.",
            command,
        )
    elif levels <= {"open", "undefined"}:
        yield Step("Rate captions of more videos: so far the intervals are too wide for a verdict.", command)


def _selection(dataset: str, trust: TrustFacts, labels: Mapping[str, str]) -> Iterator[Step]:
    """Propose a selection by the metric that is good by most aspects; where none is, advise against one."""
    good: dict[str, list[AspectFacts]] = {}
    for aspect in trust.aspects:
        for name in _good(aspect):
            good.setdefault(name, []).append(aspect)

    def strength(name: str) -> tuple[int, float]:
        return len(good[name]), max(each.coefficients[name].value or 0.0 for each in good[name])

    if good:
        name = max(good, key=strength)
        aspects = listed([aspect_in_words(each.aspect) for each in good[name]])
        command = f"reelsieve select --dataset {dataset} --by {name} --keep {KEPT}"
        yield Step(f"Freeze the best {percent(KEPT)} by {labels[name]}, which orders captions by {aspects}.", command)
    elif behind := [(aspect, name) for aspect in trust.aspects for name in _behind(aspect)]:
        yield from _second_best(dataset, *max(behind, key=lambda one: one[0].coefficients[one[1]].value or 0.0), labels)
    elif any(LIGHTS[each.level] in ("bad", "middle") for aspect in trust.aspects for each in aspect.verdicts.values()):
        none = "Select by no score yet: none orders captions as people do. Name a stronger model, and score again."
        yield Step(none, "reelsieve config")


def _second_best(dataset: str, aspect: AspectFacts, name: str, labels: Mapping[str, str]) -> Iterator[Step]:
    """Propose selections by a metric of `_behind` and by its strongest simple score, the better one first."""
    select, rival = f"reelsieve select --dataset {dataset} --by {{}} --keep {KEPT}", aspect.rivals[name]
    by_metric = Step(f"Select by {labels[name]}: {_standing(aspect, name)}.", select.format(name))
    # Of one that counts turned round a selection would take the wrong end.
    if rival.name not in COLUMNS or not _orders_upwards(aspect, rival.name):
        yield by_metric
        return
    is_better = (rival.value or 0.0) > (aspect.coefficients[name].value or 0.0)
    how = "the highest agreement here" if is_better else "simple, and nearly as good"
    by_simple = Step(f"Select by {rival.name}: {how}.", select.format(COLUMNS[rival.name]))
    yield from (by_simple, by_metric) if is_better else (by_metric, by_simple)


def _orders_upwards(aspect: AspectFacts, simple: str) -> bool:
    """Whether better captions have more of a simple score."""
    return any(each.name == simple and (each.value or 0.0) > 0 for each in aspect.baselines)
