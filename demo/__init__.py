"""The demo world: short synthetic clips with captions, keypoints and ratings that follow from the known truth.

`demo.build` writes a dataset. `demo.story` invents a single clip, `demo.describe` tells it in sentences and
`demo.render` draws it; these three write no file.
"""
