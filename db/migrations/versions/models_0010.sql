-- Facts about text on screen and speech, and the models that measured them.

ALTER TABLE video_fact
    ADD COLUMN models TEXT,
    ADD COLUMN text_share DOUBLE PRECISION,
    ADD COLUMN text_area DOUBLE PRECISION,
    ADD COLUMN speech_share DOUBLE PRECISION;
