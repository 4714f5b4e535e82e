"""Builds the first screen of a report: which metric to trust, which system is best, and what to do next."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

from assets.agreement.judged import SIMPLE_SCORE_COLUMNS
from assets.planning.plan import Plan
from assets.reports.answer_records import NextStep, ReportAnswer, ReportAnswers, TrafficLight
from assets.reports.best_system import answer_best_system
from assets.reports.data import DataSummary, MetricSummary
from assets.reports.dataset_facts import DatasetFacts
from assets.reports.systems import SystemTable
from assets.reports.trust import AspectAgreement, format_aspect
from assets.trial.sentences import advise_size
from assets.words.labels import format_metric_name
from assets.words.text import format_count, format_number, format_percent, format_portion, group_names, join_names
from db.reports.judgements import LABELS_ASPECT, SPANS_ASPECT
from db.selection.trials import Trial
from metrics_core.agreement import AgreementRow
from metrics_core.agreement.conclusions import BETTER_THAN_SIMPLE
from metrics_core.calibration.rated_search import FEWEST_VIDEOS

LEVEL_LIGHTS: Mapping[str, TrafficLight] = {
    "undefined": "open",
    "open": "open",
    "nothing": "bad",
    "against": "bad",
    "below baseline": "middle",
    "baseline": "middle",
    "above baseline": "good",
    "ceiling": "good",
}
_MOST_NEXT_STEPS = 3
_PROPOSED_SHARE = 0.25
"""The share of the captions that a proposed selection keeps, where no trial has shown another to train best."""
_FEWEST_RATERS = 2


def build_answers(
    dataset: str,
    data: DataSummary,
    described: DatasetFacts | None,
    plan: Plan | None,
    metrics: Sequence[MetricSummary],
    trust: Sequence[AspectAgreement],
    side_by_side: Mapping[str, Sequence[AgreementRow]],
    age: str | None,
    tables: Sequence[SystemTable],
    people: Sequence[SystemTable],
    trials: Sequence[Trial],
) -> ReportAnswers:
    """Build the first screen of a report from its other parts: two answers, a caveat, the notable facts, and up to
    three next steps. dataset: its name, for the commands. described: None where no facts are measured. plan: what
    metrics need; None where something is scored. trust, side_by_side: how metrics agree with people's ratings and
    preferences, by aspect.

    age: a sentence where this is missing or too old. tables, people: the systems' means by metrics and by ratings.
    trials: the newest first; the first with a curve says which share to select.
    """
    labels, quoted = {metric.name: metric.label for metric in metrics}, shlex.quote(dataset)
    notable = tuple(fact["sentence"] for fact in described.notable) if described else ()
    size = _choose_size(trials)
    steps = (
        _list_steps(quoted, data, metrics, trust, labels, size)
        if plan is None
        else _list_first_steps(quoted, described, plan)
    )
    return ReportAnswers(
        _answer_trust(plan, trust, side_by_side, age, labels),
        answer_best_system(trust, tables, people, labels, data.scale_ends),
        _explain_provenance(data, metrics),
        notable,
        tuple(islice(steps, _MOST_NEXT_STEPS)),
    )


def _list_trusted_metrics(aspect: AspectAgreement) -> list[str]:
    """Return the metrics that agree with people on an aspect clearly better than simple scores, the highest coefficient
    first.
    """
    good = [name for name, conclusion in aspect.verdicts.items() if conclusion.level in BETTER_THAN_SIMPLE]
    return sorted(good, key=lambda name: -(aspect.coefficients[name].value or 0.0))


def _answer_trust(
    plan: Plan | None,
    trust: Sequence[AspectAgreement],
    side_by_side: Mapping[str, Sequence[AgreementRow]],
    age: str | None,
    labels: Mapping[str, str],
) -> ReportAnswer:
    """Build the answer to "which metric to trust?": the best metric for every aspect, or why none can be named yet."""
    nobody = "There are no ratings and no labels, so how well a metric agrees with people is unknown."
    if side_by_side:
        nobody = "People compared captions side by side (see below), but rated and labelled none."
    if plan is not None:
        unrated = () if trust else (nobody,)
        return ReportAnswer(
            "open", "Nothing is scored", ("No sample has a score yet.", *_explain_needs(plan), *unrated)
        )
    if not trust:
        return ReportAnswer("open", "Open: no ratings", (nobody,))
    conclusions = [conclusion for aspect in trust for conclusion in aspect.verdicts.values()]
    if not conclusions:
        return ReportAnswer("open", "Open", (age or "No rated sample has a score, so no metric can be compared.",))
    if all(LEVEL_LIGHTS[conclusion.level] == "open" for conclusion in conclusions):
        # Reasons differ from metric to metric; the commonest one is given here, the others further down.
        reasons = [conclusion.short for conclusion in conclusions]
        commonest = max(dict.fromkeys(reasons), key=reasons.count)
        return ReportAnswer("open", "Open", (f"{commonest[0].upper()}{commonest[1:]}.",))
    good = {
        format_aspect(aspect_agreement.aspect): [labels[name] for name in _list_trusted_metrics(aspect_agreement)]
        for aspect_agreement in trust
    }
    first = group_names({aspect: names[0] for aspect, names in good.items() if names})
    headline = "; ".join(f"{name} for {join_names(aspects)}" for name, aspects in first.items())
    sentences = [_explain_trusted(aspect, labels) for aspect in trust if _list_trusted_metrics(aspect)]
    lacking = [aspect for aspect in trust if not _list_trusted_metrics(aspect)]
    sentences += _explain_next_best(lacking, labels)
    if first:
        return ReportAnswer("good", headline, tuple(sentences))
    if any(_list_metrics_behind_simple(aspect) for aspect in trust):
        return ReportAnswer("middle", "No metric beats a simple score", tuple(sentences))
    return ReportAnswer("bad", "None yet", tuple(sentences))


def _explain_trusted(aspect: AspectAgreement, labels: Mapping[str, str]) -> str:
    """Return a sentence on the metrics to trust for an aspect: how far each agrees with people, and how far the simple
    score does with which the best one is compared.
    """
    names = _list_trusted_metrics(aspect)
    tau = {name: format_number(aspect.coefficients[name].value) for name in names}
    rival, name = aspect.rivals.get(names[0]), format_aspect(aspect.aspect)
    against = f", {rival.against} {format_number(rival.value)}" if rival else ""
    also = join_names([f"{labels[name]} {tau[name]}" for name in names[1:]])
    return (
        f"{name[0].upper()}{name[1:]}: {labels[names[0]]} has τ-b {tau[names[0]]}{against}{also and f'; also {also}'}."
    )


def _explain_provenance(data: DataSummary, metrics: Sequence[MetricSummary]) -> str | None:
    """Return the caveat of the first screen on ratings by a program and on stand-ins for models; None without any."""
    uses = [
        f"{format_metric_name(metric.name)} uses the {join_names(list(metric.stand_ins))}"
        for metric in metrics
        if metric.stand_ins
    ]
    ratings = ["Ratings are by a program, not people."] if data.synthetic_ratings else []
    models = [f"In place of a model {join_names(uses)}."] if uses else []
    return " ".join(ratings + models) or None


def _list_metrics_behind_simple(aspect: AspectAgreement) -> list[str]:
    """Return the metrics that order captions as people do, but not clearly better than a simple score, the best
    first.
    """
    behind = [
        name for name, conclusion in aspect.verdicts.items() if conclusion.level in ("baseline", "below baseline")
    ]
    return sorted(behind, key=lambda name: -(aspect.coefficients[name].value or 0.0))


def _explain_next_best(lacking: Sequence[AspectAgreement], labels: Mapping[str, str]) -> Iterator[str]:
    """Yield sentences on aspects without a metric to trust: the best metric that is not clearly better than a simple
    score, with τ-b of both. Aspects of which the same is true share a sentence.
    """
    names = {aspect.aspect: _list_metrics_behind_simple(aspect)[:1] for aspect in lacking}
    clauses = {
        aspect.aspect: f"{labels[name]} is {_explain_shortfall(aspect, name)}"
        for aspect in lacking
        for name in names[aspect.aspect]
    }
    for clause, aspects in group_names(clauses).items():
        pairs = "; ".join(
            f"{format_number(aspect.coefficients[name].value)} against {format_number(aspect.rivals[name].value)}"
            for aspect in lacking
            for name in names[aspect.aspect]
            if aspect.aspect in aspects
        )
        yield f"For {join_names([format_aspect(aspect) for aspect in aspects])} {clause} (τ-b {pairs})."
    if none := [format_aspect(aspect) for aspect, found in names.items() if not found]:
        yield f"For {join_names(none)} no metric is shown to order captions as people do."


def _explain_shortfall(aspect: AspectAgreement, name: str) -> str:
    """Return how a metric of `_list_metrics_behind_simple` compares: `better than chance, but worse than words in
    common`.
    """
    than = "worse than" if aspect.verdicts[name].level == "below baseline" else "not clearly better than"
    return f"better than chance, but {than} {aspect.rivals[name].against}"


def _list_steps(
    dataset: str,
    data: DataSummary,
    metrics: Sequence[MetricSummary],
    trust: Sequence[AspectAgreement],
    labels: Mapping[str, str],
    size: _Size,
) -> Iterator[NextStep]:
    """Yield the next steps for a dataset with scores, the most helpful one first. dataset: quoted for a shell."""
    stale = [metric for metric in metrics if metric.n_stale]
    if any(not metric.is_imported for metric in stale):
        yield NextStep("Compute stale scores again.", f"reelsieve score --dataset {dataset}")
    if imported := [metric.label for metric in stale if metric.is_imported]:
        yield NextStep(f"Import stale scores again with rs.import_scores: {join_names(imported)}.")
    if any(metric.n_defined for metric in metrics):
        yield from _propose_ratings(dataset, trust)
        yield from _propose_selection(dataset, trust, labels, size)
    else:
        yield NextStep("Look at facts, which need neither reference nor model.", f"reelsieve facts --dataset {dataset}")
    if data.synthetic_ratings:
        yield NextStep("These ratings were made by a program: start with your own videos.", "reelsieve try FOLDER")
    missing = {
        metric.label: why for metric in metrics if not metric.n_defined and (why := _find_commonest_reason(metric))
    }
    for why, names in group_names(missing).items():
        yield NextStep(f"{join_names(names)} {'has' if len(names) == 1 else 'have'} no value: {why}.")
    if trust and all(aspect.n_raters < _FEWEST_RATERS for aspect in trust):
        second = "Let a second person rate the same captions, to learn how well people agree."
        yield NextStep(second, _format_rate_command(dataset, trust))


def _list_first_steps(dataset: str, described: DatasetFacts | None, plan: Plan) -> Iterator[NextStep]:
    """Yield the next steps for a dataset without any score."""
    if plan.metrics or not plan.needs:
        yield NextStep("Score the captions.", f"reelsieve score --dataset {dataset}")
    if described is None:
        yield NextStep("Look at facts, which need neither reference nor model.", f"reelsieve facts --dataset {dataset}")
        return
    yield NextStep("Look through videos and captions, sorted by any fact.", f"reelsieve look {dataset}")
    if proposed := described.proposed:
        condition = shlex.quote(proposed["condition"])
        keep = f"--by words --choose random --seed 1 --keep 1 --where {condition}"
        those = format_portion(proposed["n"], described.n_captions, "caption", "that meets", "that meet")
        yield NextStep(f"Select the {those} a condition on facts.", f"reelsieve select --dataset {dataset} {keep}")
    if plan.needs and not plan.metrics:
        yield NextStep("To score with a metric, add what it needs: docs/first-dataset.md shows how.")


def _explain_needs(plan: Plan) -> list[str]:
    """Return a sentence for every lack that keeps metrics from scoring anything, with the metrics that it concerns."""
    names = group_names({format_metric_name(metric): lacks for metric, lacks in plan.needs.items()})
    return [f"{join_names(metrics)} need{'s' * (len(metrics) == 1)} {lacks}." for lacks, metrics in names.items()]


def _find_commonest_reason(metric: MetricSummary) -> str | None:
    """Return the reason, with its remedy, why most samples of a metric have no value; None where no status has a
    reason.
    """
    counts = [count for count in metric.statuses if count.reason and count.status not in ("ok", "not_applicable")]
    return max(counts, key=lambda count: count.n).reason if counts else None


def _format_rate_command(dataset: str, trust: Sequence[AspectAgreement]) -> str:
    """Return the command to rate captions by the first aspect that is rated so far, or by `overall` where none is."""
    aspect = next((each.aspect for each in trust if each.aspect != SPANS_ASPECT), "overall")
    return f"reelsieve rate {dataset} {'--keypoints' if aspect == LABELS_ASPECT else f'--aspect {shlex.quote(aspect)}'}"


def _propose_ratings(dataset: str, trust: Sequence[AspectAgreement]) -> Iterator[NextStep]:
    """Yield a step that asks for more ratings, where there are too few to draw any conclusion about metrics."""
    command = _format_rate_command(dataset, trust)
    n_videos = max((row.n_videos for aspect in trust for row in aspect.coefficients.values()), default=0)
    levels = {conclusion.level for aspect in trust for conclusion in aspect.verdicts.values()}
    if not trust:
        who = f"Let two people rate captions of at least {FEWEST_VIDEOS} videos"
        yield NextStep(
            f"{who}, in a browser or as table `ratings` of the manifest, to learn which metric to trust.", command
        )
    elif levels and n_videos < FEWEST_VIDEOS:
        yield NextStep(
            f"Rate captions of {format_count(FEWEST_VIDEOS - n_videos, 'more video')}: a conclusion needs "
            f"{FEWEST_VIDEOS}.",
            command,
        )
    elif levels <= {"open", "undefined"}:
        yield NextStep("Rate captions of more videos: the intervals are still too wide for a conclusion.", command)


class _Size(NamedTuple):
    """The share of the captions that a proposed selection keeps, and a sentence on why."""

    share: float
    why: str


def _choose_size(trials: Sequence[Trial]) -> _Size:
    """Choose the share that trained best in the first of these trials with a curve; _PROPOSED_SHARE without one."""
    share, advice = advise_size(trials)
    if share is None:
        return _Size(_PROPOSED_SHARE, "This share is a choice: no trial has tested it.")
    return _Size(share, f"{advice[0].upper()}{advice[1:]}.")


def _propose_selection(
    dataset: str, trust: Sequence[AspectAgreement], labels: Mapping[str, str], size: _Size
) -> Iterator[NextStep]:
    """Yield a step that selects by the metric trusted for the most aspects; without one, by the next best, or advice
    not to.
    """
    good: dict[str, list[AspectAgreement]] = {}
    for aspect in trust:
        for name in _list_trusted_metrics(aspect):
            good.setdefault(name, []).append(aspect)

    def strength(name: str) -> tuple[int, float]:
        return len(good[name]), max(conclusion.coefficients[name].value or 0.0 for conclusion in good[name])

    if good:
        name = max(good, key=strength)
        aspects = join_names([format_aspect(conclusion.aspect) for conclusion in good[name]])
        command = f"reelsieve select --dataset {dataset} --by {name} --keep {size.share:g}"
        best = f"Select the best {format_percent(size.share)} by {labels[name]}, which orders captions by {aspects}."
        yield NextStep(f"{best} {size.why}", command)
    elif behind := [(aspect, name) for aspect in trust for name in _list_metrics_behind_simple(aspect)]:
        first, *others = _propose_second_best(
            f"reelsieve select --dataset {dataset} --by {{}} --keep {size.share:g}",
            *max(behind, key=lambda candidate: candidate[0].coefficients[candidate[1]].value or 0.0),
            labels,
        )
        yield from (NextStep(f"{first.sentence} {size.why}", first.command), *others)
    elif any(
        LEVEL_LIGHTS[conclusion.level] in ("bad", "middle")
        for aspect in trust
        for conclusion in aspect.verdicts.values()
    ):
        none = (
            "Do not select by a score yet: no metric orders captions as people do. Set a stronger model, score again."
        )
        yield NextStep(none, "reelsieve config")


def _propose_second_best(
    select: str, aspect: AspectAgreement, name: str, labels: Mapping[str, str]
) -> Iterator[NextStep]:
    """Yield a selection by a metric that is not better than its strongest simple score, and one by that simple score.

    The better of the two comes first. select: the command, with a place for what to select by. name: a metric of
    `_list_metrics_behind_simple`.
    """
    rival = aspect.rivals[name]
    by_metric = NextStep(f"Select by {labels[name]}: {_explain_shortfall(aspect, name)}.", select.format(name))
    # By a score with its sign turned, a selection would take the worst captions.
    if rival.against not in SIMPLE_SCORE_COLUMNS or not _is_positive(aspect, rival.against):
        yield by_metric
        return
    is_better = (rival.value or 0.0) > (aspect.coefficients[name].value or 0.0)
    how = "the highest agreement here" if is_better else "a simple score, and nearly as good"
    by_simple = NextStep(f"Select by {rival.against}: {how}.", select.format(SIMPLE_SCORE_COLUMNS[rival.against]))
    yield from (by_simple, by_metric) if is_better else (by_metric, by_simple)


def _is_positive(aspect: AspectAgreement, simple: str) -> bool:
    """Return whether better captions have a higher value of a simple score, by the ratings of an aspect."""
    return any(baseline.metric == simple and (baseline.value or 0.0) > 0 for baseline in aspect.baselines)
