-- Number, extremes, histogram and thresholds of the scores of a kind in table defined, and how many scores the
-- thresholds keep: more than the share if several scores equal the threshold.
-- The k-th best of n values is their discrete quantile at (k - 1/2) / n from above: no rounding moves it.
WITH of_kind AS (
    SELECT value
    FROM defined
    WHERE kind = :kind),
extremes AS (
    SELECT count(*) AS n,
           min(value) AS low,
           max(value) AS high
    FROM of_kind),
binned AS (
    SELECT CASE WHEN e.low = e.high THEN 1
                ELSE LEAST(width_bucket(d.value, e.low, e.high, CAST(:bins AS integer)), CAST(:bins AS integer))
           END AS place,
           count(*) AS n
    FROM of_kind d
    CROSS JOIN extremes e
    GROUP BY 1),
places AS (
    SELECT array_agg((GREATEST(1, floor(CAST(s.share AS numeric) * e.n)) - 0.5) / e.n ORDER BY s.place) AS fractions
    FROM extremes e
    CROSS JOIN unnest(CAST(:shares AS text[])) WITH ORDINALITY s (share, place)
    WHERE e.n > 0),
cut AS (
    SELECT percentile_disc(CAST((SELECT fractions FROM places) AS float8[])) WITHIN GROUP (ORDER BY value DESC) AS cutoffs
    FROM of_kind)
SELECT e.n,
       e.low,
       e.high,
       (SELECT jsonb_object_agg(place, n) FROM binned) AS counts,
       c.cutoffs,
       (SELECT array_agg((SELECT count(*) FROM of_kind k WHERE k.value >= u.cutoff) ORDER BY u.place)
        FROM unnest(c.cutoffs) WITH ORDINALITY u (cutoff, place)) AS n_kept
FROM extremes e
CROSS JOIN cut c
