-- Summary of temporary table chosen: rows, eligible rows, worst value, scorer, and a hash over samples and values.
SELECT count(*) AS n,
       min(n_eligible) AS n_eligible,
       min(value) AS cutoff,
       min(scorer) AS scorer,
       encode(
           sha256(
               string_agg(
                   convert_to(concat_ws(E'\t', row->>'kind', row->>'sample', value::text) || E'\n', 'UTF8'),
                   '' ORDER BY rank)),
           'hex') AS score_hash
FROM chosen
