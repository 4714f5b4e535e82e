-- How many answers a judge is to give about a drawn sample.

ALTER TABLE drawn_sample ADD COLUMN n_answers INTEGER DEFAULT 1 NOT NULL;
ALTER TABLE drawn_sample ADD CONSTRAINT ck_drawn_sample_n_answers CHECK (n_answers > 0);
