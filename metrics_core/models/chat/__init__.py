"""Chat models that answer with JSON objects, asked through any server of /v1/chat/completions.

`presets.make_chat_model` builds one from plain values.
"""
