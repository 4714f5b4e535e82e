"""The dynamic programme that pairs two sequences in order, and the two ways to read the pairs off its table.

Works on stacks of pairs of one shape: `iou` is (pairs, N, M) with references along N and predictions along M, both in
the order in which they are aligned. A path is (pairs, N): the prediction paired with each reference, or -1.
"""

from __future__ import annotations

import numpy as np

from metrics_core.sodam.spans import FloatArray, IntArray


def best_totals(iou: FloatArray) -> FloatArray:
    """S (pairs, N + 1, M + 1): the most overlap that the first i references and first j predictions can reach.

    S[i, j] = max(S[i-1, j], S[i, j-1], S[i-1, j-1] + iou[i, j]) with zeros along the borders (Eq. 3 of arXiv
    2602.08711). The best pairs of a clip are worth S[N, M].

    >>> best_totals(np.array([[[0.5, 0.25], [0.0, 0.75]]]))[0].tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 1.25]]
    """
    n_pairs, n_references, n_predictions = iou.shape
    total = np.zeros((n_pairs, n_references + 1, n_predictions + 1))
    for i in range(n_references):
        without_left = np.maximum(total[:, i, 1:], total[:, i, :-1] + iou[:, i])
        np.maximum.accumulate(without_left, axis=1, out=total[:, i + 1, 1:])
    return total


def optimal_path(total: FloatArray) -> IntArray:
    """A path worth S[N, M]: of equal ones the one that drops a reference first, then a prediction, then pairs.

    A pair on it always has an overlap: one of 0 adds nothing, so the reference is dropped.
    """
    n_pairs, n_references = total.shape[0], total.shape[1] - 1
    path = np.full((n_pairs, n_references), -1, dtype=np.int64)
    stack, column = np.arange(n_pairs), np.full(n_pairs, total.shape[2] - 1)
    for i in range(n_references, 0, -1):
        reached = total[stack, i, column]
        # Rows of S never fall, so this is the first column that reaches as much: predictions after it are dropped.
        first = (total[:, i] < reached[:, None]).sum(axis=1)
        paired = reached > total[stack, i - 1, column]
        path[:, i - 1] = np.where(paired, first - 1, -1)
        column = np.where(paired, first - 1, column)
    return path


def official_path(total: FloatArray) -> IntArray:
    """The path that the official code reports: in each row the last cell left of the row below that is a pair.

    Which cells the best path visits plays no part, so the result can be worth less than S[N, M]. The first
    reference and the first prediction always count as a pair, even without overlap.
    """
    is_pair = total[:, 1:, 1:] > np.maximum(total[:, :-1, 1:], total[:, 1:, :-1])
    is_pair[:, :1, :1] = True
    n_pairs, n_references, n_predictions = is_pair.shape
    path = np.full((n_pairs, n_references), -1, dtype=np.int64)
    limit = np.full(n_pairs, n_predictions)
    for i in reversed(range(n_references)):
        candidates = np.where(is_pair[:, i], np.arange(n_predictions), -1)
        path[:, i] = np.where(candidates < limit[:, None], candidates, -1).max(axis=1, initial=-1)
        limit = np.where(path[:, i] >= 0, path[:, i], limit)
    return path
