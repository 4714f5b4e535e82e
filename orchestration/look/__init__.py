"""`reelsieve look` and `reelsieve rate`: pages in a browser where people look through a dataset's samples and judge
them.

Pages are made here, by Starlette, which Dagster's web server brings; NiceGUI would keep a page's state in the server's
memory, where no address holds it. Requests come through the guard of `reelsieve ui`, which shows these pages at /look.
"""
