-- One row per sample; value, status and models of each metric, the scores of active scorers only.
-- Every sample has its video and its dataset: LEFT JOIN lets Postgres pass over a table that no column is asked of.
CREATE VIEW sample_scores AS
SELECT d.name AS dataset,
       s.shard,
       v.key AS video,
       s.kind,
       s.key AS sample,
       s.system,
       s.text,
       v.status AS video_status,
       v.duration_s,
       s.sample_id{columns}
FROM sample s
LEFT JOIN video v USING (video_id)
LEFT JOIN dataset d ON d.dataset_id = s.dataset_id{joins}
