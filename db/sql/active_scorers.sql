-- The active scorers, what is known of their scores in a dataset, and whether other datasets have defined ones.
SELECT r.metric,
       r.scorer_id,
       r.fingerprint,
       (SELECT string_agg(model->>'model_id', ', ' ORDER BY role)
        FROM jsonb_each(r.models) AS used (role, model)) AS models,
       COALESCE(bool_and(d.is_fresh) FILTER (WHERE d.dataset_id = :dataset_id), true) AS is_fresh,
       COALESCE(max(d.n_defined) FILTER (WHERE d.dataset_id = :dataset_id), 0) AS n_defined,
       COALESCE(bool_and(d.is_fresh AND d.n_defined = 0) FILTER (WHERE d.dataset_id <> :dataset_id), true) AS is_alone
FROM scorer r
LEFT JOIN plumbing.dataset_status d USING (scorer_id)
WHERE r.status = 'active'
GROUP BY r.scorer_id
