"""The small files of text that stand for large ones in a repository that was cloned without Git LFS."""

GIT_LFS_REMEDY = "a pointer of Git LFS in place of the file: run git lfs pull"
# Every pointer is shorter.
MAX_POINTER_BYTES = 1024
_MARK = b"version https://git-lfs.github.com/spec/"


def is_git_lfs_pointer(beginning: bytes, size: int) -> bool:
    """Whether a file is a pointer of Git LFS, judged by its first bytes and its size in bytes.

    >>> is_git_lfs_pointer(b"version https://git-lfs.github.com/spec/v1", 130)
    True
    """
    return size <= MAX_POINTER_BYTES and beginning.startswith(_MARK)
