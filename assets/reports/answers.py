"""What a report says first: which metric to trust, which system is best, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from assets.agreement.rows import LABELS
from assets.plan import Plan
from assets.reports.facts import (
    Answer,
    Answers,
    AspectFacts,
    DataFacts,
    Described,
    Light,
    MetricFacts,
    Step,
    SystemTable,
    TrustFacts,
)
from assets.reports.labels import shown_name
from assets.reports.text import listed, percent, quantified
from metrics_core.agreement.verdicts import MOST_CHANCE, Level, too_few
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


@dataclass(frozen=True, slots=True)
class Leader:
    """The system with the highest mean of a metric. is_best: by more than chance, on videos enough."""

    metric: str
    system: str
    is_best: bool
    sentence: str


def answers(
    dataset: str,
    data: DataFacts,
    described: Described | None,
    plan: Plan,
    metrics: Sequence[MetricFacts],
    trust: TrustFacts,
    tables: Sequence[SystemTable],
) -> Answers:
    """Draw the answers from the facts of a report. tables: the means of metrics, one for each kind of samples."""
    labels, quoted = {metric.name: metric.label for metric in metrics}, shlex.quote(dataset)
    notable = tuple(each.sentence for each in described.notable) if described else ()
    steps = _steps(quoted, data, metrics, trust, labels) if metrics else _first_steps(quoted, described, plan)
    return Answers(
        _trust(metrics, plan, trust, labels), _best(trust, tables, labels), notable, tuple(islice(steps, MOST_STEPS))
    )


def aspect_in_words(aspect: str) -> str:
    """An aspect as a sentence names it."""
    return "labelled coverage" if aspect == LABELS else aspect


def grouped(said: Mapping[str, str]) -> dict[str, list[str]]:
    """The names of which each thing is said.

    >>> grouped({"VCS": "good", "ECS": "bad", "QEVA": "good"})
    {'good': ['VCS', 'QEVA'], 'bad': ['ECS']}
    """
    names: dict[str, list[str]] = {}
    for name, each in said.items():
        names.setdefault(each, []).append(name)
    return names


def _good(aspect: AspectFacts) -> list[str]:
    """The metrics that can be trusted by an aspect, the highest coefficient first."""
    good = [name for name, found in aspect.verdicts.items() if LIGHTS[found.level] == "good"]
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
        return Answer("open", "Open", ("No rated sample has a score, so no metric can be compared.",))
    if all(LIGHTS[found.level] == "open" for found in verdicts):
        # Sentences differ from metric to metric; what most have in common stands here, the rest below.
        reasons = [found.short for found in verdicts]
        commonest = max(dict.fromkeys(reasons), key=reasons.count)
        return Answer("open", "Open", (f"{commonest[0].upper()}{commonest[1:]}.",))
    good = {aspect_in_words(each.aspect): [labels[name] for name in _good(each)] for each in trust.aspects}
    first = grouped({aspect: names[0] for aspect, names in good.items() if names})
    headline = "; ".join(f"{name} for {listed(aspects)}" for name, aspects in first.items())
    further = grouped({aspect: listed(names[1:]) for aspect, names in good.items() if names[1:]})
    sentences = [f"Also {names} for {listed(aspects)}." for names, aspects in further.items()]
    if none := [aspect for aspect, names in good.items() if not names]:
        sentences.append(f"For {listed(none)} none is clearly better than a simple baseline.")
    if first and any(aspect.synthetic for aspect in trust.aspects):
        sentences.append("By ratings of a program, not of people.")
    return Answer("good" if first else "bad", headline or "None yet", tuple(sentences))


def leaders(table: SystemTable, labels: Mapping[str, str]) -> list[Leader]:
    """For each metric which system is best, and whether that is more than chance."""
    return [_leader(table, metric, labels[metric]) for metric in table.columns]


def _leader(table: SystemTable, metric: str, label: str) -> Leader:
    means = {system: table.means[system][metric] for system in table.systems}
    ranked = sorted((s for s in means if means[s].n), key=lambda s: -(means[s].mean or 0.0))
    without = [system for system in means if not means[system].n]
    note = f" Without a value: {', '.join(without[:6])}{' …' if len(without) > 6 else ''}." if without else ""
    first, chance = ranked[0], table.leads[metric]
    if len(ranked) < 2:
        return Leader(metric, first, False, f"{label}: {first} alone has values; there is nothing to compare.{note}")
    leads = f"{label}: {first} has the highest mean"
    if few := too_few(min(means[system].n_clusters for system in ranked[:2])):
        return Leader(metric, first, False, f"{leads}; whether it is best is open: {few}.{note}")
    if chance is None or chance > MOST_CHANCE:
        return Leader(metric, first, False, f"{leads}, but may not be better than {ranked[1]}.{note}")
    return Leader(metric, first, True, f"{label}: {first} is best.{note}")


def _best(trust: TrustFacts, tables: Sequence[SystemTable], labels: Mapping[str, str]) -> Answer:
    """Name the best system of captions, or of questions where there are no captions, by metrics to be trusted."""
    if not tables:
        return Answer("open", "Open", ("No system can be compared: no sample has a score with a value.",))
    table = tables[0]
    if len(table.systems) < 2:
        return Answer("open", "Nothing to compare", (f"{table.systems[0]} is the only system with values.",))
    found = leaders(table, labels)
    trusted = {name for aspect in trust.aspects for name in _good(aspect)}
    systems = _best_systems([each for each in found if each.metric in trusted], labels)
    if len(systems) == 1:
        ((system, names),) = systems.items()
        return Answer("good", system, (f"Best by {listed(names)}, more than chance.",))
    if systems:
        return Answer(
            "middle", "It depends", tuple(f"{system} is best by {listed(n)}." for system, n in systems.items())
        )
    if few := too_few(table.n_videos):
        return Answer("open", "Open", (f"{few[0].upper()}{few[1:]}.",))
    untrusted = _best_systems(found, labels)
    if not untrusted:
        return Answer("open", "Open", ("No lead of a system is more than chance.",))
    led = [f"{system} is best by {listed(names)}" for system, names in untrusted.items()]
    why = "which nothing shows to agree with people here" if trust.aspects else "which nobody held against people here"
    return Answer("open", "Open", (f"{'; '.join(led)}, {why}.",))


def _best_systems(found: Iterable[Leader], labels: Mapping[str, str]) -> dict[str, list[str]]:
    """The metrics by which each system is best by more than chance."""
    return grouped({labels[each.metric]: each.system for each in found if each.is_best})


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
        yield Step("Let metrics score: add what one of them needs, as docs/own-clips.md says.")


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
    elif any(LIGHTS[each.level] in ("bad", "middle") for aspect in trust.aspects for each in aspect.verdicts.values()):
        yield Step("Select by no score yet: name a stronger model, and score again.", "reelsieve config")
