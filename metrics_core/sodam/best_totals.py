"""Pair two sequences in order by a dynamic programme, and read the pairs off its table in two ways."""

from __future__ import annotations

import numpy as np

from metrics_core.arrays import FloatArray, IntArray


def compute_best_totals(iou: FloatArray) -> FloatArray:
    """Return the table S (videos, N + 1, M + 1) from the IoU (videos, N, M). S[v, i, j] is the largest sum of IoU that
    ordered pairs of the first i references and the first j predictions of video v reach.

    S[i, j] = max(S[i-1, j], S[i, j-1], S[i-1, j-1] + iou[i, j]) with zeros along the borders (Eq. 3 of arXiv
    2602.08711). The best pairs of a video have the IoU S[N, M] in all.

    >>> compute_best_totals(np.array([[[0.5, 0.25], [0.0, 0.75]]]))[0].tolist()
    [[0.0, 0.0, 0.0], [0.0, 0.5, 0.5], [0.0, 0.5, 1.25]]
    """
    n_videos, n_references, n_predictions = iou.shape
    total = np.zeros((n_videos, n_references + 1, n_predictions + 1))
    for i in range(n_references):
        without_left = np.maximum(total[:, i, 1:], total[:, i, :-1] + iou[:, i])
        np.maximum.accumulate(without_left, axis=1, out=total[:, i + 1, 1:])
    return total


def find_optimal_path(total: FloatArray) -> IntArray:
    """Return for every reference its paired prediction, or -1 for none: (videos, N). total: the table S of
    `compute_best_totals`. The pairs' IoU adds up to its last cell, the largest sum.

    Of equal steps, dropping a reference comes before dropping a prediction. Both come before a pair, so every pair on
    the path overlaps: a pair without overlap adds nothing.
    """
    n_videos, n_references = total.shape[0], total.shape[1] - 1
    path = np.full((n_videos, n_references), -1, dtype=np.int64)
    stack, column = np.arange(n_videos), np.full(n_videos, total.shape[2] - 1)
    for i in range(n_references, 0, -1):
        reached = total[stack, i, column]
        # Rows of S never fall, so this is the first column with the same total: predictions after it are dropped.
        first = (total[:, i] < reached[:, None]).sum(axis=1)
        paired = reached > total[stack, i - 1, column]
        path[:, i - 1] = np.where(paired, first - 1, -1)
        column = np.where(paired, first - 1, column)
    return path


def find_official_path(total: FloatArray) -> IntArray:
    """Return for every reference the prediction that the official code pairs it with, or -1 for none: (videos, N).
    total: the table S of `compute_best_totals`.

    The code takes in every row the last pair to the left of the pair in the row below. It ignores which cells the best
    path visits, so the path can reach less than S[N, M]. The first reference and the first prediction always count as a
    pair, even without overlap.
    """
    is_pair = total[:, 1:, 1:] > np.maximum(total[:, :-1, 1:], total[:, 1:, :-1])
    is_pair[:, :1, :1] = True
    n_videos, n_references, n_predictions = is_pair.shape
    path = np.full((n_videos, n_references), -1, dtype=np.int64)
    limit = np.full(n_videos, n_predictions)
    for i in reversed(range(n_references)):
        candidates = np.where(is_pair[:, i], np.arange(n_predictions), -1)
        path[:, i] = np.where(candidates < limit[:, None], candidates, -1).max(axis=1, initial=-1)
        limit = np.where(path[:, i] >= 0, path[:, i], limit)
    return path
