-- Sets is_stale of every score of these samples to whether its inputs have changed; scorers: NULL for all scorers.
-- The placeholder in braces becomes an expression of db/schema/inputs.py, never user input.
CREATE OR REPLACE FUNCTION compare_scores(samples bigint[], scorers bigint[] DEFAULT NULL) RETURNS void
    LANGUAGE plpgsql
    AS $$
BEGIN
    UPDATE score
    SET is_stale = NOT differing.is_stale
    FROM (SELECT c.scorer_id, c.sample_id, c.is_stale
          FROM score c
          JOIN scorer r USING (scorer_id)
          JOIN sample s USING (sample_id)
          JOIN video v USING (video_id)
          WHERE c.sample_id = ANY(samples)
            AND (scorers IS NULL OR c.scorer_id = ANY(scorers))
            AND c.is_stale <> (c.input_sha256 <> {digest_by_metric})
          ORDER BY c.scorer_id, c.sample_id
          FOR NO KEY UPDATE OF c) differing
    WHERE score.scorer_id = differing.scorer_id
      AND score.sample_id = differing.sample_id;
END $$
