-- One row per dataset: how much of everything there is.
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
       (SELECT count(*) FROM rating g JOIN sample s USING (sample_id) WHERE s.dataset_id = d.dataset_id) AS ratings,
       (SELECT coalesce(sum(j.n_rows), 0)::bigint FROM ingest_reject j WHERE j.dataset_id = d.dataset_id) AS rejects,
       (SELECT coalesce(sum(CAST(k.counts->>'ok' AS bigint)), 0)::bigint
          FROM plumbing.shard_status k JOIN scorer USING (scorer_id)
         WHERE k.dataset_id = d.dataset_id AND scorer.status = 'active')
       + (SELECT coalesce(sum(counted.n), 0)::bigint
            -- OFFSET 0 keeps Postgres from counting samples before it knows which shards are unknown.
            FROM (SELECT k.scorer_id, k.dataset_id, k.shard
                    FROM plumbing.unknown_shard k JOIN scorer USING (scorer_id)
                   WHERE k.dataset_id = d.dataset_id AND scorer.status = 'active'
                  OFFSET 0) u
            CROSS JOIN LATERAL (
                SELECT count(*) AS n
                FROM sample s
                JOIN current_score c ON c.scorer_id = u.scorer_id AND c.sample_id = s.sample_id
                WHERE s.dataset_id = u.dataset_id AND s.shard = u.shard AND c.status = 'ok') counted)
       AS scores
FROM dataset d
