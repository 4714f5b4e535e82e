-- One row per sample; value, status and models of each metric, the scores of active scorers only.
-- Every sample has its video and its dataset: LEFT JOIN lets Postgres skip a table of which no column is asked, and
-- it skips a subquery whose column nobody asks for.
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
       v.width,
       v.height,
       v.fps,
       v.codec,
       v.n_frames,
       v.licence,
       v.source_url,
       v.collected_at,
       v.opt_out,
       s.sample_id,
       t.words,
       t.sentences,
       t.words / nullif(v.duration_s, 0) AS words_per_second,
       t.repetition,
       t.boilerplate,
       t.digit_share,
       t.name_share,
       t.language,
       f.motion,
       f.motion_min,
       f.motion_max,
       f.camera_motion,
       f.object_motion,
       f.frame_change,
       f.frame_change_min,
       f.frame_change_max,
       f.static_share,
       f.frozen_share,
       f.black_share,
       f.sharpness,
       f.sharpness_min,
       f.sharpness_max,
       f.brightness,
       f.brightness_min,
       f.brightness_max,
       f.contrast,
       f.contrast_min,
       f.contrast_max,
       f.letterbox,
       f.cuts,
       f.has_sound,
       f.repeated_share,
       f.text_share,
       f.text_area,
       f.speech_share,
       (SELECT count(DISTINCT r.text) FROM reference r WHERE r.video_id = s.video_id) AS n_references,
       (SELECT jsonb_object_agg(g.aspect, g.mean)
          FROM (SELECT aspect, avg(value) AS mean FROM current_rating r WHERE r.sample_id = s.sample_id GROUP BY aspect) g)
           AS mean_ratings,
       ARRAY(SELECT r.text FROM remark r WHERE r.sample_id = s.sample_id AND r.kind = 'tag' ORDER BY r.text COLLATE "C") AS tags,
       -- A field of the sample takes precedence over that of its video, unless it is null.
       CASE WHEN s.extra IS NULL THEN v.extra
            WHEN v.extra IS NULL THEN s.extra
            ELSE v.extra || (SELECT coalesce(jsonb_object_agg(f.key, f.value), '{{}}')
                               FROM jsonb_each(s.extra) f
                              WHERE f.value <> 'null' OR NOT v.extra ? f.key)
       END AS own_fields{columns}
FROM sample s
LEFT JOIN video v USING (video_id)
LEFT JOIN video_fact f ON f.video_id = v.video_id AND f.content_sha256 = v.content_sha256
LEFT JOIN text_fact t ON t.text_sha256 = s.text_sha256
LEFT JOIN dataset d ON d.dataset_id = s.dataset_id{joins};

COMMENT ON VIEW sample_scores IS 'One row per sample with its scores by the active scorers; begin here. A stale score has no value.';
COMMENT ON COLUMN sample_scores.text IS 'The caption; of a question-answer pair, question and answer together.';
COMMENT ON COLUMN sample_scores.video_status IS 'ok, damaged, undecodable, or text_only (there is no file).';
COMMENT ON COLUMN sample_scores.duration_s IS 'Length of the video in seconds.';
COMMENT ON COLUMN sample_scores.width IS 'Width of the video in pixels, as it is shown.';
COMMENT ON COLUMN sample_scores.height IS 'Height of the video in pixels, as it is shown.';
COMMENT ON COLUMN sample_scores.n_frames IS 'Number of frames of the video.';
COMMENT ON COLUMN sample_scores.licence IS 'Licence of the video, as the manifest names it; NULL if unknown.';
COMMENT ON COLUMN sample_scores.source_url IS 'Web address that the video was collected from; NULL if unknown.';
COMMENT ON COLUMN sample_scores.collected_at IS 'Date, with or without a time, at which the video was collected, in ISO 8601; NULL if unknown.';
COMMENT ON COLUMN sample_scores.opt_out IS 'Whether the video''s owner asked to leave it out; NULL if unknown.';
COMMENT ON COLUMN sample_scores.sample_id IS 'Number of the sample, for joins with tables.';
COMMENT ON COLUMN sample_scores.words IS 'Number of words of the text. This fact and those that follow do not measure quality, and are NULL until reelsieve facts has run.';
COMMENT ON COLUMN sample_scores.sentences IS 'Number of sentences of the text.';
COMMENT ON COLUMN sample_scores.words_per_second IS 'Words of the text for each second of the video.';
COMMENT ON COLUMN sample_scores.boilerplate IS 'Share of the sentences with an English stock phrase, such as "the video shows".';
COMMENT ON COLUMN sample_scores.digit_share IS 'Share of the words that hold a digit.';
COMMENT ON COLUMN sample_scores.name_share IS 'Share of the words inside sentences that begin with a capital letter.';
COMMENT ON COLUMN sample_scores.language IS 'ISO 639 code of the text''s language; NULL if the text is too short to detect it.';
COMMENT ON COLUMN sample_scores.n_references IS 'Number of references of the sample''s video; equal ones count once.';
COMMENT ON COLUMN sample_scores.mean_ratings IS 'Mean rating by aspect over the raters, as in mean_ratings->>''overall''; NULL where nobody rated it.';
COMMENT ON COLUMN sample_scores.tags IS 'Tags that people gave the sample, in order, as in ''good'' = ANY (tags); an empty array without a tag.';
COMMENT ON COLUMN sample_scores.own_fields IS 'Own fields of the manifest, as in own_fields->>''camera'': the sample''s and, where it has none, its video''s.';{comments}
