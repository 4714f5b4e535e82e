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
FROM dataset d
