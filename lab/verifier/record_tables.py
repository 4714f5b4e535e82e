"""The part of RECORD.md about the whole text: what is fitted, and how far it agrees with people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lab.verifier.regression import FEW, FINER, PENALTIES, SNLI_SHARES
from metrics_core.ecs.verifier.whole_text import WHOLE_TEXT_FEATURES

BARS = {"snli": 0.80, "spearman_gain": 0.05}
COLUMNS = ("yes", "auc", "accuracy", "f1", "kendall", "system_kendall")
LEGEND = """The threshold of every rule says yes on the other articles as often as people do; "yes" is how often it says
so on the article itself, where people say {people_yes:.3f}. A summary's score is the share of its statements at or
above the threshold, as the metric `ecs` computes it ("share", and so Kendall), or the mean of their numbers ("mean").
People's score of a summary is the share of statements that most of them found in it. Spearman is taken over all
summaries; brackets hold 95 % of 1,000 resamples of whole articles."""

TEXT = """## The whole text
The network reads one sentence at a time. A statement whose parts stand in several sentences is entailed by none of
them. So a logistic regression weighs the log-odds of the best sentence's probability against features of the words of
the whole text. These may count: {features}.
None of them sees the order or the number of words in the text, so that a text gains nothing by being shuffled or long.
The probability of a pair stays as it was; only whole captions in ECS are weighed. Weights stand in whole_text.json.

The network's probability is too good on the 32 articles that it was trained on, and a regression there would trust it
too much. So the regression is fitted on the 26 articles that it never saw, and on SNLI's pairs for choices, so that
another colour, number or gender counts as a conflict. Every fit chooses by five-fold cross-validation over articles and
premises, with the least log loss of both together: the features (all; without {finer}; or {few} alone), the penalty
({penalties}), and how much all pairs count beside all statements ({shares}).
The weights here come from: {settings}. The threshold {threshold} says yes to these statements as often as people do.
`python -m lab.verifier.whole_text` fits and measures all of this, the same every time.

### Measured on the 26 REALSumm articles that the network never saw
{n_unseen} statements of 25 systems. Each article is judged by choices and a fit without it. Chosen were
{chosen}.
{legend}

{unseen}

The strongest floor is "{floor}" ({way}). Against it the share has Spearman {gain}, the mean
{gain_mean}.

### Measured on SNLI's test pairs, entailed or not
Each premise is a text of one sentence. AUC: {snli_auc}. Accuracy, the network at .5: {snli_accuracy}.

Bars: SNLI accuracy {accuracy:.4f}, wanted {bar_snli:.2f}: {met_snli}. Spearman of the share above the strongest floor
{gain}, wanted {bar_gain:+.2f}: {met_gain}."""


def evidence_text(measured: Mapping[str, Any], snli_accuracy: float) -> str:
    """Write the part of the record about the whole text, from the result of `measure_evidence`."""
    unseen, snli = measured["unseen"], measured["snli"]
    return TEXT.format(
        features=", ".join(WHOLE_TEXT_FEATURES),
        finer=", ".join(FINER),
        few=", ".join(FEW),
        penalties=", ".join(f"{each:g}" for each in PENALTIES),
        shares=", ".join(f"{each:g}" for each in SNLI_SHARES),
        settings=in_words(measured["settings"]),
        threshold=measured["threshold"],
        n_unseen=unseen["statements"],
        chosen="; ".join(f"{in_words(each)} ({each['articles']} times)" for each in measured["settings_by_article"]),
        legend=LEGEND.format(people_yes=unseen["people_yes"]),
        unseen=table(unseen["rules"]),
        floor=unseen["floor"][0],
        way=unseen["floor"][1],
        gain=limits(unseen["gains"]["share"], "+.3f"),
        gain_mean=limits(unseen["gains"]["mean"], "+.3f"),
        snli_auc=", ".join(f"{name} {value}" for name, value in snli["auc"].items()),
        snli_accuracy=", ".join(f"{name} {value}" for name, value in snli["accuracy"].items()),
        accuracy=snli_accuracy,
        bar_snli=BARS["snli"],
        met_snli=_verdict(snli_accuracy - BARS["snli"]),
        bar_gain=BARS["spearman_gain"],
        met_gain=_shown(unseen["gains"]["share"], BARS["spearman_gain"]),
    )


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings of a fit as the record names them."""
    return f"{len(settings['features'])} features, penalty {settings['penalty']:g}, SNLI {settings['snli']:g}"


def table(rules: Mapping[str, Mapping[str, Any]]) -> str:
    """Make a table of Markdown with a row for every rule."""
    lines = [
        f"| | Spearman of shares | Spearman of means | {' | '.join(COLUMNS)} |",
        "|---|---|---|" + "---|" * len(COLUMNS),
    ]
    for name, row in rules.items():
        cells = [limits(row["spearman_share"]), limits(row["spearman_mean"]), *(f"{row[each]:.3f}" for each in COLUMNS)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def limits(value: Mapping[str, float], form: str = ".3f") -> str:
    """Write a number with its interval."""
    number, low, high = (format(value[name], form) for name in ("value", "low", "high"))
    return f"{number} ({low} to {high})"


def _shown(gain: Mapping[str, float], bar: float) -> str:
    """Whether a gain is above a bar: only where its whole interval is."""
    return "shown" if gain["low"] >= bar else f"not shown, as the interval begins at {gain['low']:+.3f}"


def _verdict(margin: float) -> str:
    return f"met by {margin:.4f}" if margin >= 0 else f"missed by {-margin:.4f}"
