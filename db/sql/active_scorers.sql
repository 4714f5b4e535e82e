-- The active scorers, how many of their scores in a dataset are defined, and whether other datasets have defined ones.
SELECT r.metric,
       r.scorer_id,
       r.fingerprint,
       (SELECT string_agg(model->>'model_id', ', ' ORDER BY role)
        FROM jsonb_each(r.models) AS used (role, model)) AS models,
       CAST(COALESCE(sum(k.n) FILTER (WHERE k.dataset_id = :dataset_id), 0) AS bigint) AS n_defined,
       COALESCE(sum(k.n) FILTER (WHERE k.dataset_id <> :dataset_id), 0) = 0 AS is_alone
FROM scorer r
LEFT JOIN shard_count k ON k.scorer_id = r.scorer_id AND k.status = 'ok'
WHERE r.status = 'active'
GROUP BY r.scorer_id
