"""The demo world: short drawn videos (clips) with captions, keypoints and ratings that follow from their known content.

`demo.build` writes a dataset. `demo.story` invents a single clip, `demo.describe` describes it in sentences and
`demo.render` draws it; these three write no file.
"""
