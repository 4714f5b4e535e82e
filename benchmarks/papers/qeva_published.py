"""The figures of the QEVA paper's tables."""

from __future__ import annotations

from collections.abc import Mapping

from benchmarks.papers.qeva_scores import QEVA

PAPER = "QEVA paper, Table {}: MLVU(VS)-Eval, people's ratings (not at hand), so no target of ours"
TABLE_1: Mapping[str, tuple[float, float, float]] = {
    QEVA: (0.6465, 0.6407, 0.7326),
    "BLEU-1": (0.0217, 0.0219, 0.0431),
    "BLEU-4": (0.2113, 0.1578, 0.2798),
    "ROUGE-L": (0.1094, 0.1104, 0.1571),
    "METEOR": (0.2663, 0.2689, 0.3822),
    "BERTScore": (0.1415, 0.1428, 0.1987),
    "Video-LMM Judge": (0.5376, 0.5441, 0.6810),
}
MODELS_2 = ("Qwen2.5-VL-7B", "InternVL3-8B", "Video-LLaVA-7B", "GPT-4o")
TABLE_2: Mapping[str, tuple[float, float, float, float]] = {
    QEVA: (0.4509, 0.4268, 0.1450, 0.4262),
    "BLEU-1": (0.1662, 0.0870, 0.0758, 0.0053),
    "BLEU-4": (0.1654, 0.1130, 0.3565, 0.1717),
    "ROUGE-L": (0.4022, 0.2332, 0.1573, 0.3423),
}
TABLE_3 = {
    "coverage": (0.6005, 0.5872, 0.7349),
    "factuality": (0.5731, 0.5586, 0.7123),
    "chronology": (0.5610, 0.5479, 0.6984),
}
TABLE_4: Mapping[str, tuple[float | None, float, float | None]] = {
    "Qwen2.5-VL + LLaMA-3.1": (None, 0.6152, None),
    "Qwen2.5-VL + Gemma-3": (None, 0.6021, None),
    "InternVL3 + LLaMA-3.1": (0.5988, 0.5933, 0.6761),
    "InternVL3 + Gemma-3": (0.5827, 0.5780, 0.6894),
    "Gemini-1.5-Pro + GPT-4o": (0.6465, 0.6407, 0.7326),
}
