"""The n-gram metrics of the papers' tables: BLEU by NLTK, ROUGE by rouge-score, CIDEr by its formula."""

from __future__ import annotations

import math
import re
import string
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

PUNCTUATION = str.maketrans("", "", string.punctuation)
SENTENCE_END = re.compile(r"([.!?])\s*")
CORRUPTION_METRICS = ("BLEU-1", "BLEU-4", "ROUGE-1", "ROUGE-4", "ROUGE-L", "ROUGE-Lsum")
MAX_N = 4
Tokens = Sequence[str]
Gram = tuple[str, ...]
Vector = dict[Gram, float]


def scores_of(reference: str, text: str) -> dict[str, float]:
    """BLEU-1, BLEU-4 and four ROUGE F1 of a text against one reference, as the VCS authors take them.

    BLEU: NLTK's sentence BLEU with smoothing method 1 on lower-case words without punctuation. ROUGE: with stemming;
    for ROUGE-Lsum every sentence end begins a line.
    """
    rouge = rouge_scorer().score(with_lines(reference), with_lines(text))
    columns = {"ROUGE-1": "rouge1", "ROUGE-4": "rouge4", "ROUGE-L": "rougeL", "ROUGE-Lsum": "rougeLsum"}
    of_words = [words_of(reference)], words_of(text)
    return {
        "BLEU-1": bleu(*of_words, 1),
        "BLEU-4": bleu(*of_words, 4),
        **{name: float(rouge[kind].fmeasure) for name, kind in columns.items()},
    }


def bleu(references: Sequence[Tokens], text: Tokens, n: int) -> float:
    """Sentence BLEU up to n-grams, where 0 matches count as 0.1."""
    from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu

    smoothing = SmoothingFunction().method1
    return float(sentence_bleu(list(references), list(text), (1 / n,) * n, smoothing_function=smoothing))


def rouge_l(references: Sequence[Tokens], text: Tokens) -> float:
    """F1 of ROUGE-L with the best reference, on the tokens as they are."""
    scorer = plain_rouge_scorer()
    return max(float(scorer.score(" ".join(each), " ".join(text))["rougeL"].fmeasure) for each in references)


def words_of(text: str) -> list[str]:
    """Words in lower case without punctuation, as NLTK's word tokenizer splits them.

    >>> words_of("The man's dog cannot swim.")
    ['the', 'mans', 'dog', 'can', 'not', 'swim']
    """
    words: list[str] = word_tokenizer().tokenize(text.lower().translate(PUNCTUATION))
    return words


def caption_words(text: str) -> list[str]:
    """Words in lower case without the tokens that are only punctuation, of a caption that is tokenised already.

    >>> caption_words("A man 's dog , it swims .")
    ['a', 'man', "'s", 'dog', 'it', 'swims']
    """
    return [token for token in text.lower().split() if any(map(str.isalnum, token))]


def with_lines(text: str) -> str:
    """The text with a line break after every sentence end."""
    return SENTENCE_END.sub(r"\1\n", text.strip())


@lru_cache(maxsize=1)
def word_tokenizer() -> Any:
    """The tokenizer inside NLTK's word_tokenize; a text without punctuation needs no sentence splitter before it."""
    from nltk.tokenize import NLTKWordTokenizer

    return NLTKWordTokenizer()


@lru_cache(maxsize=1)
def rouge_scorer() -> Any:
    """ROUGE with the Porter stemmer."""
    from rouge_score.rouge_scorer import RougeScorer

    return RougeScorer(["rouge1", "rouge4", "rougeL", "rougeLsum"], use_stemmer=True)


@lru_cache(maxsize=1)
def plain_rouge_scorer() -> Any:
    """ROUGE-L on tokens that spaces separate."""
    from rouge_score.rouge_scorer import RougeScorer
    from rouge_score.tokenizers import Tokenizer

    class Spaces(Tokenizer):
        def tokenize(self, text: str) -> list[str]:
            return text.split()

    return RougeScorer(["rougeL"], tokenizer=Spaces())


class Cider:
    """CIDEr (Vedantam et al. 2015): 10 times the mean cosine of tf-idf vectors of 1- to 4-grams.

    An n-gram's document frequency counts the videos whose references hold it. The cosine is averaged over n and over
    the references. Neither length penalty nor clipping (those of CIDEr-D) is applied, and no word is stemmed.

    >>> corpus = [["a red ball".split()], ["a blue box".split()]]
    >>> round(Cider(corpus).score(corpus[0], "a red ball".split()), 6)
    7.5
    """

    def __init__(self, corpus: Sequence[Sequence[Tokens]]) -> None:
        documents = [{gram for each in references for gram in counts_of(each)} for references in corpus]
        self._frequency = Counter(gram for document in documents for gram in document)
        self._n_documents = len(documents)

    def score(self, references: Sequence[Tokens], text: Tokens) -> float:
        """CIDEr of one text against its references. An n without an n-gram that tells videos apart counts as 0."""
        own = self._vectors(text)
        each = [[cosine(a, b) for a, b in zip(own, self._vectors(other), strict=True)] for other in references]
        return 10 * sum(map(sum, each)) / (MAX_N * len(references))

    def _vectors(self, text: Tokens) -> list[Vector]:
        """A tf-idf vector for every n."""
        vectors: list[Vector] = [{} for _ in range(MAX_N)]
        for gram, count in counts_of(text).items():
            frequency = max(1, self._frequency[gram])
            vectors[len(gram) - 1][gram] = count * math.log(self._n_documents / frequency)
        return vectors


def counts_of(text: Tokens) -> Counter[Gram]:
    """How often each 1- to 4-gram occurs."""
    return Counter(tuple(text[i : i + n]) for n in range(1, MAX_N + 1) for i in range(len(text) - n + 1))


def cosine(one: Vector, other: Vector) -> float:
    """The cosine of two sparse vectors; 0 where one has no length."""
    lengths = math.sqrt(sum(v * v for v in one.values()) * sum(v * v for v in other.values()))
    return sum(value * other.get(gram, 0.0) for gram, value in one.items()) / lengths if lengths else 0.0
