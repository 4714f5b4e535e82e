"""Chat models that answer with JSON objects, asked through any server of /v1/chat/completions.

`client.HttpChatModel` is one, made of a `server.endpoint.Endpoint`.
"""
