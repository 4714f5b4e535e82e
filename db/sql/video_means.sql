-- The mean defined score of every video of a dataset, with its shard: videos are independent, their samples are not.
SELECT c.shard,
       avg(c.value) AS mean
FROM current_score c
JOIN sample s USING (sample_id)
WHERE c.scorer_id = :scorer_id
  AND c.dataset_id = :dataset_id
  AND c.status = 'ok'
GROUP BY c.shard, s.video_id
