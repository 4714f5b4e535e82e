"""Research beside the product: training of models, published datasets as manifests. Nothing that runs imports it."""
