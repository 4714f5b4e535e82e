-- Vectors of whole videos, by encoders of other tools.

CREATE TABLE video_embedding (
    model_id BIGINT NOT NULL,
    video_id BIGINT NOT NULL,
    content_sha256 BYTEA,
    embedding VECTOR NOT NULL,
    extra JSONB,
    row_sha256 BYTEA NOT NULL,
    CONSTRAINT pk_video_embedding PRIMARY KEY (model_id, video_id),
    CONSTRAINT fk_video_embedding_model_id FOREIGN KEY(model_id) REFERENCES model (model_id) ON DELETE CASCADE,
    CONSTRAINT fk_video_embedding_video_id FOREIGN KEY(video_id) REFERENCES video (video_id) ON DELETE CASCADE
);

CREATE INDEX ix_video_embedding_video_id ON video_embedding (video_id);
