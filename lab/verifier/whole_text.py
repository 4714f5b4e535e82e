"""Fits and measures the evidence of the whole text: `python -m lab.verifier.whole_text DATA [FOLDER]`.

DATA is the folder that `lab.verifier.data` describes. FOLDER, by default the package of the verifier, holds the
network's weights and its record. Weights go to whole_text.json, measurements into the record. Some minutes on one core.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from lab.verifier.agreement import measure_evidence
from lab.verifier.data import CHOICE, TEST, realsumm, snli
from lab.verifier.evaluate import entailment_scores
from lab.verifier.record import record_evidence
from lab.verifier.regression import Fitted, fit, of_pairs, of_statements
from metrics_core.ecs.verifier import FOLDER, WEIGHTS, WHOLE_TEXT
from metrics_core.ecs.verifier.model import OfflineVerifier

DIGITS = 4


def plain_weights(fitted: Fitted) -> dict[str, Any]:
    """Return the numbers of whole_text.json, of few digits, which other machines find too.

    Raises ValueError where a greater probability of the network would lower the result.
    """
    slope, *weights = fitted.regression.weights.round(DIGITS).tolist()
    if slope <= 0:
        raise ValueError(f"the network's probability has the weight {slope}: it must be above 0")
    numbers = {"bias": fitted.regression.bias, "threshold": fitted.threshold}
    rounded = {name: round(value, DIGITS) for name, value in numbers.items()}
    return {"probability": slope, **rounded, "evidence": dict(zip(fitted.settings.features, weights, strict=True))}


def add_whole_text(data: Path, folder: Path) -> None:
    """Fit on all articles that the network never saw, write the weights, measure article by article, and record it."""
    network, news, pairs = OfflineVerifier(folder / WEIGHTS), realsumm(data), snli(data)
    statements = [*news[TEST], *news[CHOICE]]
    given = network.entailment([(pair.premise, pair.hypothesis) for pair in pairs[CHOICE]]).probabilities
    material, apart = of_statements(statements, entailment_scores(network, statements)), of_pairs(pairs[CHOICE], given)
    fitted = fit(material, apart)
    (folder / WHOLE_TEXT).write_text(json.dumps(plain_weights(fitted), indent=1) + "\n", encoding="utf-8")
    record_evidence(folder, WHOLE_TEXT, measure_evidence(fitted, statements, material, apart, network, data))


def main() -> None:
    """Fit, measure, and print the record."""
    data, folder = Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else FOLDER
    add_whole_text(data, folder)
    print((folder / "RECORD.md").read_text(encoding="utf-8"))


if __name__ == "__main__":
    main()
