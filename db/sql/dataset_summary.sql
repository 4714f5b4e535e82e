-- One row per dataset with counts of its videos, texts, judgements and scores.
CREATE VIEW dataset_summary AS
SELECT d.name AS dataset,
       d.n_shards AS shards,
       (SELECT count(*) FROM video v WHERE v.dataset_id = d.dataset_id) AS videos,
       (SELECT count(*) FROM video v WHERE v.dataset_id = d.dataset_id AND v.status IN ('damaged', 'undecodable'))
           AS bad_videos,
       (SELECT count(*) FROM reference r WHERE r.dataset_id = d.dataset_id) AS "references",
       (SELECT count(*) FROM sample s WHERE s.dataset_id = d.dataset_id AND s.kind = 'caption') AS captions,
       (SELECT count(*) FROM sample s WHERE s.dataset_id = d.dataset_id AND s.kind = 'qa') AS qa,
       (SELECT count(*) FROM keypoint k WHERE k.dataset_id = d.dataset_id) AS keypoints,
       (SELECT count(*) FROM current_rating g JOIN sample s USING (sample_id) WHERE s.dataset_id = d.dataset_id)
           AS ratings,
       (SELECT coalesce(sum(j.n_rows), 0)::bigint FROM ingest_reject j WHERE j.dataset_id = d.dataset_id) AS rejects,
       (SELECT coalesce(sum(k.n), 0)::bigint
          FROM shard_count k JOIN scorer USING (scorer_id)
         WHERE k.dataset_id = d.dataset_id AND scorer.status = 'active' AND k.status = 'ok') AS scores,
       (SELECT count(*)
          FROM rating g JOIN sample s USING (sample_id)
         WHERE s.dataset_id = d.dataset_id AND g.text_sha256 <> s.text_sha256) AS old_ratings
FROM dataset d;

COMMENT ON VIEW dataset_summary IS 'One row per dataset with counts of its videos, texts, judgements and scores.';
COMMENT ON COLUMN dataset_summary.shards IS 'Number of shards.';
COMMENT ON COLUMN dataset_summary.videos IS 'Number of videos.';
COMMENT ON COLUMN dataset_summary.bad_videos IS 'Number of videos that are damaged or undecodable.';
COMMENT ON COLUMN dataset_summary."references" IS 'Number of references.';
COMMENT ON COLUMN dataset_summary.captions IS 'Number of captions to be scored.';
COMMENT ON COLUMN dataset_summary.qa IS 'Number of question-answer pairs.';
COMMENT ON COLUMN dataset_summary.keypoints IS 'Number of keypoints.';
COMMENT ON COLUMN dataset_summary.ratings IS 'Number of ratings of texts as they are now.';
COMMENT ON COLUMN dataset_summary.old_ratings IS 'Number of ratings of texts that have changed since; no statistic uses them.';
COMMENT ON COLUMN dataset_summary.rejects IS 'Number of rows that ingest refused.';
COMMENT ON COLUMN dataset_summary.scores IS 'Number of defined scores by active scorers; stale ones do not count.';
