"""`reelsieve look` and `reelsieve rate`: a dataset's samples in a browser, to look through and to judge.

Pages are made here, by Starlette, which Dagster's web server brings; NiceGUI would keep a page's state in the server's
memory, where no address holds it. Requests come through the guard of `reelsieve ui`, which shows these pages at /look.
"""
