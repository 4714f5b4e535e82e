-- The permanent random number of a sample, in [0, 1): it depends on kind, key and seed only. The n samples of any set
-- with the lowest numbers are a simple random sample of it. It is the order in which `rate` asks for captions.
CREATE OR REPLACE FUNCTION draw_number(kind text, key text, seed bigint) RETURNS double precision
    LANGUAGE sql
    IMMUTABLE PARALLEL SAFE
    -- 53 bits of the hash, so that every number is exact and below 1.
    RETURN CAST((hashtextextended(CASE WHEN kind = 'caption' THEN key ELSE kind || chr(10) || key END, seed) >> 11)
                + 4503599627370496 AS double precision) / 9007199254740992
