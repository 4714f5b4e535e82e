"""The part of RECORD.md about the whole text: what is fitted, and how far it agrees with people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verifier.whole_text import EVIDENCE

BARS = {"snli": 0.80, "spearman_gain": 0.05}
COLUMNS = ("auc", "accuracy", "f1", "kendall", "system_kendall")
LEGEND = """The threshold of every rule has the best F1 on the other articles. A summary's score is the share of its
statements at or above it, as the metric `ecs` computes it ("share", and so Kendall), or the mean of their numbers
("mean"). People's score of a summary is the share of statements that most of them found in it. Spearman is taken over
all summaries; brackets hold 95 % of 1,000 resamples of whole articles."""

TEXT = """## The whole text
The network reads one sentence at a time. A statement whose parts stand in several sentences is entailed by none of
them. So a logistic regression weighs the log-odds of the best sentence's probability against {n_features} features of
the words of the whole text: {features}.
No length is among them, so that a text gains nothing by being long. The probability of a pair stays as it was; only
whole captions in ECS are weighed. Weights stand in whole_text.json.

The network's probability is too good on the 32 articles that it was trained on, and a regression there would trust it
too much. So two are fitted: the words of the whole text against people's votes, on all 58 articles; and the network
against the first, on the 26 articles that it never saw, each through a first regression without it. Both also see
SNLI's pairs for choices, at a tenth of the statements' weight, so that another colour, number or gender counts as a
conflict. The threshold {threshold} has the best F1 on these 26 articles. `python -m verifier.training.whole_text` fits
and measures all of this.

### Measured on the 26 REALSumm articles that the network never saw
{n_unseen} statements of 25 systems. Each article is judged by a fit without it.
{legend}

{unseen}

The strongest floor is "{floor}" ({way}). Against it the share has Spearman {gain}, the mean
{gain_mean}.

### Measured on all 58 articles, without the network
The features of the whole text alone, each article judged by a fit without it, beside the same floors.

{all_articles}

The strongest floor is "{all_floor}" ({all_way}). Against it the share has Spearman {all_gain}, the mean
{all_gain_mean}.

### Measured on SNLI's test pairs, entailed or not
Each premise is a text of one sentence. AUC: {snli_auc}. Accuracy, the network at .5: {snli_accuracy}.

Bars: SNLI accuracy {accuracy:.4f}, wanted {bar_snli:.2f}: {met_snli}. Spearman of the share {gain_value:+.4f} above the
strongest floor, wanted {bar_gain:+.2f}: {met_gain}."""


def evidence_text(measured: Mapping[str, Any], snli_accuracy: float) -> str:
    """Write the part of the record about the whole text, from the result of `measure_evidence`."""
    unseen, every, snli = measured["unseen"], measured["all_articles"], measured["snli"]
    gain = unseen["gains"]["share"]["value"]
    return TEXT.format(
        n_features=len(EVIDENCE),
        features=", ".join(EVIDENCE),
        threshold=measured["threshold"],
        n_unseen=unseen["statements"],
        legend=LEGEND,
        unseen=table(unseen["rules"]),
        floor=unseen["floor"][0],
        way=unseen["floor"][1],
        gain=limits(unseen["gains"]["share"], "+.3f"),
        gain_mean=limits(unseen["gains"]["mean"], "+.3f"),
        all_articles=table(every["rules"]),
        all_floor=every["floor"][0],
        all_way=every["floor"][1],
        all_gain=limits(every["gains"]["share"], "+.3f"),
        all_gain_mean=limits(every["gains"]["mean"], "+.3f"),
        snli_auc=", ".join(f"{name} {value}" for name, value in snli["auc"].items()),
        snli_accuracy=", ".join(f"{name} {value}" for name, value in snli["accuracy"].items()),
        accuracy=snli_accuracy,
        bar_snli=BARS["snli"],
        met_snli=_verdict(snli_accuracy - BARS["snli"]),
        gain_value=gain,
        bar_gain=BARS["spearman_gain"],
        met_gain=_verdict(gain - BARS["spearman_gain"]),
    )


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


def _verdict(margin: float) -> str:
    return f"met by {margin:.4f}" if margin >= 0 else f"missed by {-margin:.4f}"
