"""How the models that come with the project were trained; nothing that runs imports it."""
