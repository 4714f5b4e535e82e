"""The public face of Reelsieve for programs: what stands here keeps its name and meaning from version to version."""
