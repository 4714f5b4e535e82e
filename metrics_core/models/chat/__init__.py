"""Language and video models that answer with JSON: by any server of /v1/chat/completions, or in this process."""
