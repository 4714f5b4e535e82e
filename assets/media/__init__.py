"""Video files anywhere: in a manifest's folder, below a named root, or in a store that has a URL.

`address` parses addresses, `store` fetches objects, `private_networks` decides which machines may be asked, `cache`
keeps copies in a bounded folder, `tar_index` lists the members of a tar file, `members` reads one into memory, and
`files` gives every video as a file of this machine.
"""
