"""Video files anywhere: in a manifest's folder, below a named root, or in a store that has a URL.

`address` reads what a manifest says, `remote` asks stores, `network` decides which machines may be asked, `cache` keeps
copies in a bounded folder, and `files` gives every video as a file of this machine.
"""
