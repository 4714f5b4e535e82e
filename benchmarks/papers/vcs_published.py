"""What the VCS paper prints in its Tables 1 to 3, in percent, as far as the text at hand can be read."""

from __future__ import annotations

from collections.abc import Mapping

PRINTED = "VCS paper, Table 1 as printed, NV-Embed-v2, texts in segments by SaT"
MEANS: Mapping[str, tuple[float, float]] = {
    "Synonym Substitution": (93.7, 94.1),
    "Active <-> Passive Transformation": (95.1, 96.7),
    "Brevity - L1": (86.0, 90.5),
    "Brevity - L2": (80.0, 86.3),
    "Verbosity - L1": (92.2, 93.5),
    "Verbosity - L2": (87.5, 88.7),
    "Macro-Actions -> Micro-Actions": (88.5, 90.4),
    "Micro-Actions -> Macro-Actions": (81.0, 86.9),
    "Insert Attributes, Emotions and Scene": (86.4, 86.8),
    "Addition (~50%)": (69.1, 70.5),
    "Addition (~80%)": (53.4, 54.9),
    "Deletion (~50%)": (62.2, 68.3),
    "Deletion (~80%)": (1.9, 6.7),
    "Subject-Action-Object Corruption": (5.0, 5.4),
    "Summarization": (62.4, 73.5),
    "Reverse Segments Order": (0.1, 43.6),
    "Jumble Segments Order": (3.4, 15.2),
    "Rotate Half Paragraph": (42.9, 43.0),
}
"""Table 1: the mean VCS with tolerance 0 and 1 of each kind of variant that the authors' file holds, too.

The paper names them otherwise: Low and High-Abstraction are Brevity, Low and High-Elaboration Verbosity, Hallucination
Addition, Omission Deletion, Sequence Inversion the reverse order, Global Permutation the jumbled one. Paraphrasing and
Local Permutation stand in no row of the file.
"""

TABLE_2 = "VCS paper, Table 2"
JUDGED: Mapping[str, tuple[float, float, float, float]] = {
    "BLEU-1": (12.2, 15.9, 28.9, 37.0),
    "BLEU-4": (12.6, 16.4, 22.4, 29.5),
    "ROUGE-L": (12.5, 16.3, 23.8, 30.9),
    "METEOR": (16.4, 21.5, 27.6, 35.7),
    "CIDEr": (17.3, 22.6, 27.8, 36.1),
    "BERT-S": (18.2, 23.7, 29.3, 37.8),
    "BERT-S++": (15.2, 19.8, 24.4, 31.7),
    "EMScore": (28.6, 37.1, 36.8, 47.2),
    "RefPAC-S": (31.4, 40.5, 38.1, 48.8),
}
"""Table 2: Kendall and Spearman on VATEX-EVAL with one reference, then with nine. ROUGE-L is the paper's ROUGE."""
ABSTRACT = "VCS_short: abstract of the VCS paper, NV-Embed-v2, tolerance .1; its Table 2 prints 0.00 there"
SHORT_JUDGED = (30.0, 38.1, 41.5, 52.8)

AUTHORS = "VCS paper, Table 3, NV-Embed-v2, texts in segments by SaT"
TABLE_3: Mapping[str, tuple[float, ...]] = {
    "BLEU-1": (45.1, 46.3, 52.4, 46.4, 39.4, 50.8, 43.8, 33.7, 40.2, 53.3, 50.2, 44.7),
    "BLEU-4": (9.3, 9.7, 15.2, 9.6, 8.1, 12.0, 9.2, 7.0, 9.7, 15.4, 11.9, 10.7),
    "METEOR": (35.2, 42.9, 41.6, 41.1, 43.5, 42.8, 33.5, 29.0, 33.9, 43.1, 38.1, 44.8),
    "ROUGE-1": (56.0, 57.8, 62.1, 56.0, 55.2, 60.2, 57.8, 55.2, 59.4, 62.1, 60.2, 59.4),
    "ROUGE-4": (3.0, 3.2, 6.6, 3.0, 3.2, 4.5, 3.2, 3.2, 4.4, 6.6, 4.5, 4.4),
    "ROUGE-L": (36.6, 40.4, 43.8, 36.6, 34.9, 38.3, 40.4, 34.9, 38.8, 43.8, 38.3, 38.8),
    "ROUGE-Lsum": (52.6, 55.1, 59.2, 52.6, 51.3, 56.4, 55.3, 51.4, 56.2, 59.3, 56.5, 56.0),
    "VCS_LCT0": (76.3, 77.9, 74.9, 76.3, 75.2, 76.7, 77.9, 75.2, 76.5, 74.9, 76.7, 76.5),
    "VCS_LCT1": (82.5, 80.5, 81.6, 82.5, 79.1, 83.8, 80.5, 79.1, 81.6, 81.6, 83.8, 81.6),
}
"""Table 3: means of A1-A2, A1-A3, A1-A4, then of A2, A3 and A4 with the others, of 1,390 scenes in percent."""
