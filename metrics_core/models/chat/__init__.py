"""Language and video models that answer with JSON: by any server of /v1/chat/completions, or in this process.

`client.make_chat_model` builds one from plain values.
"""
