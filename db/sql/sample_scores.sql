-- One row per sample; value, status and models of each metric, the scores of active scorers only.
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
JOIN video v USING (video_id)
JOIN dataset d ON d.dataset_id = s.dataset_id{joins}
