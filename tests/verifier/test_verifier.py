"""The verifier with the weights that come with it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch

from lab.verifier.agreement import FLOORS, WHOLE, correlations
from lab.verifier.data import CHOICE, TEST, Statement, realsumm, snli
from lab.verifier.evaluate import agreement, kendall, spearman, three_way, whole_recall_scores
from lab.verifier.record import record_text
from lab.verifier.record_tables import evidence_text
from metrics_core.ecs.verifier import FOLDER, WEIGHTS, WHOLE_TEXT, make_offline_verifier, read_default_threshold
from metrics_core.ecs.verifier.lexical import LEXICAL_FEATURES, LEXICAL_VERSION
from metrics_core.ecs.verifier.model import OfflineVerifier
from metrics_core.models.nli_inputs import HypothesisTooLong
from metrics_core.protocols import EntailmentModel

ENTAILED = [
    ("A man in a blue shirt is riding a brown horse on the beach.", "A man is riding a horse."),
    ("A man in a blue shirt is riding a brown horse on the beach.", "Someone is on a horse."),
    ("Two children play football in the park.", "There are two children."),
    ("A woman slices an onion and puts it into a pan.", "A woman cuts an onion."),
    ("The red car stops at the traffic light.", "A car stops."),
    ("A dog jumps into the water to fetch a stick.", "A dog is in the water."),
]
CONTRADICTED = [
    ("A man in a blue shirt is riding a horse on the beach.", "The man is wearing a red shirt."),
    ("The red car stops at the traffic light.", "The car is green."),
    ("Two children play football in the park.", "Four children play football in the park."),
    ("Two children play football in the park.", "The children are not playing football."),
    ("A woman slices an onion and puts it into a pan.", "Nobody is cooking."),
    ("A dog jumps into the water to fetch a stick.", "The dog is sleeping on a sofa."),
]
OPEN = [
    ("A man in a blue shirt is riding a horse on the beach.", "The man is on holiday with his wife."),
    ("Two children play football in the park.", "The children are brothers."),
    ("A woman slices an onion and puts it into a pan.", "The woman is cooking for her friends."),
    ("The red car stops at the traffic light.", "The driver is late for work."),
]


@pytest.fixture(scope="module")
def verifier() -> OfflineVerifier:
    return make_offline_verifier()


def test_it_keeps_the_protocol_and_its_identity_names_the_weights(verifier: OfflineVerifier) -> None:
    model: EntailmentModel = verifier
    digest = hashlib.sha256((FOLDER / WEIGHTS).read_bytes()).hexdigest()
    assert model.identity.revision == f"sha256:{digest}"
    assert model.identity.params["lexical"] == LEXICAL_VERSION
    assert "sha256:" in model.identity.params["encoder"]


def test_the_record_agrees_with_the_files() -> None:
    record = json.loads((FOLDER / "record.json").read_text())
    files = (WEIGHTS, WHOLE_TEXT)
    assert record["sha256"] == {name: hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() for name in files}
    assert record["whole_text"]["threshold"] == round(read_default_threshold(), 4)
    assert record["lexical"] == {"version": LEXICAL_VERSION, "names": list(LEXICAL_FEATURES)}
    assert (FOLDER / "RECORD.md").read_text() == record_text(record)
    assert (FOLDER / WEIGHTS).stat().st_size <= 8_000_000


def test_bars_are_told_as_they_are() -> None:
    measured = json.loads((FOLDER / "record.json").read_text())["whole_text"]
    gain = measured["unseen"]["gains"]["share"]
    gain |= {"value": 0.09, "low": 0.04, "high": 0.1}
    text = " ".join(evidence_text(measured, 0.81).split())
    assert "wanted 0.80: met by 0.0100" in text
    # A gain whose interval reaches below the bar may be less than the bar.
    assert (
        "strongest floor +0.090 (+0.040 to +0.100), wanted +0.05: not shown, as the interval begins at +0.040" in text
    )
    gain["low"] = 0.06
    assert "wanted +0.05: shown." in " ".join(evidence_text(measured, 0.81).split())


def test_plain_pairs_are_told_apart(verifier: OfflineVerifier) -> None:
    entailed, contradicted, open_ = (
        verifier.entailment(pairs).probabilities for pairs in (ENTAILED, CONTRADICTED, OPEN)
    )
    assert (entailed > 0.5).all(), entailed
    assert (contradicted < 0.5).all(), contradicted
    assert (open_ < 0.5).all(), open_


def test_a_pair_does_not_depend_on_the_others(verifier: OfflineVerifier) -> None:
    pairs = [*ENTAILED, *CONTRADICTED, ("A very long sentence. " * 30, "It is long.")]
    together = verifier.entailment(pairs).probabilities
    alone = np.concatenate([verifier.entailment([pair]).probabilities for pair in pairs])
    assert np.abs(together - alone).max() < 1e-5
    assert (verifier.entailment(pairs).probabilities == together).all()


def test_no_pairs_and_long_pairs(verifier: OfflineVerifier) -> None:
    assert verifier.entailment([]).probabilities.shape == (0,)
    found = verifier.entailment([("word " * 600, "A word."), ("A word.", "A word.")])
    assert found.truncated.tolist() == [True, False]
    assert np.isfinite(found.probabilities).all()
    with pytest.raises(HypothesisTooLong, match="1 hypothesis"):
        verifier.entailment([("A word.", "word " * 600)])


def test_gradients_are_not_kept(verifier: OfflineVerifier) -> None:
    verifier.entailment(ENTAILED[:1])
    assert torch.is_grad_enabled()


@pytest.mark.slow
def test_held_out_pairs_score_as_the_record_says(verifier: OfflineVerifier, shared_data: Path) -> None:
    """A fifth of the held-out SNLI pairs, against the record's accuracy with four standard errors."""
    recorded = json.loads((FOLDER / "record.json").read_text())["measured"]["snli"]["accuracy"]
    pairs = snli(shared_data)[TEST][::5]
    error = (recorded * (1 - recorded) / len(pairs)) ** 0.5
    assert three_way(verifier, pairs)["accuracy"] == pytest.approx(recorded, abs=4 * error)


def test_the_strongest_floor_is_what_the_record_says(shared_data: Path) -> None:
    recorded = json.loads((FOLDER / "record.json").read_text())["whole_text"]["unseen"]
    parts = realsumm(shared_data)
    statements = [*parts[CHOICE], *parts[TEST]]
    assert recorded["articles"] == len({each.article for each in statements})
    found, _ = correlations(statements, {(WHOLE, "mean"): whole_recall_scores(statements)}, n_resamples=1)
    assert round(found[WHOLE, "mean"], 4) == recorded["rules"][WHOLE]["spearman_mean"]["value"]
    floors = [recorded["rules"][name][f"spearman_{way}"]["value"] for name in FLOORS for way in ("share", "mean")]
    name, way = recorded["floor"]
    assert recorded["rules"][name][f"spearman_{way}"]["value"] == max(floors)


def test_agreement_by_hand() -> None:
    """Summaries (a, one) (a, two) (b, one) (b, two) have shares 1, 0, 1/2, 0; people say 1, 0, 0, 1/2."""
    rows = [
        ("a", "one", True),
        ("a", "one", True),
        ("a", "two", False),
        ("b", "one", False),
        ("b", "one", False),
        ("b", "two", True),
        ("b", "two", False),
    ]
    statements = [Statement(article, system, ("x",), "y", present, 0.0) for article, system, present in rows]
    covered = np.array([0.9, 0.6, 0.1, 0.5, 0.2, 0.3, 0.3]) >= 0.5
    found = agreement(statements, covered)
    assert found["accuracy"] == round(5 / 7, 4)
    assert found["f1"] == round(2 * 2 / (3 + 3), 4)
    assert found["kendall"] == 0.4
    assert found["system_kendall"] == 1.0
    # Ranks of the shares: 4, 1.5, 3, 1.5; of the people: 4, 1.5, 1.5, 3.
    rho, _ = correlations(statements, {("rule", "share"): covered.astype(float)}, n_resamples=1)
    assert rho["rule", "share"] == pytest.approx(0.5)


def test_correlations_agree_with_scipy() -> None:
    scipy_stats = pytest.importorskip("scipy.stats")
    rng = np.random.default_rng(1)
    left, right = rng.integers(0, 7, 60).astype(float), rng.integers(0, 5, 60).astype(float)
    assert spearman(left, right) == pytest.approx(scipy_stats.spearmanr(left, right).statistic)
    assert kendall(left, right) == pytest.approx(scipy_stats.kendalltau(left, right).statistic)
