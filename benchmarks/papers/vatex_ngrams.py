"""The n-gram metrics of VATEX-EVAL's captions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchmarks.papers import meteor
from benchmarks.papers.ngrams import Cider, bleu, caption_words, rouge_l


def ngram_scores(captions: Mapping[str, Any]) -> dict[str, list[float]]:
    """BLEU, ROUGE-L, CIDEr and, with WordNet, METEOR of every caption, tokenised as in the file."""
    texts = [caption_words(text) for text in captions["texts"]]
    references = [[caption_words(text) for text in own] for own in captions["references"]]
    by_video = dict(zip(captions["videos"], references, strict=True))
    cider, pairs = Cider(list(by_video.values())), list(zip(references, texts, strict=True))
    return {
        "BLEU-1": [bleu(own, text, 1) for own, text in pairs],
        "BLEU-4": [bleu(own, text, 4) for own, text in pairs],
        "ROUGE-L": [rouge_l(own, text) for own, text in pairs],
        "CIDEr": [cider.score(own, text) for own, text in pairs],
        **({meteor.METEOR: [meteor.meteor(own, text) for own, text in pairs]} if meteor.identity() else {}),
    }
