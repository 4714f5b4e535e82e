"""The demo world: short drawn videos (clips) with captions, keypoints and ratings that follow from their known content.

`python -m lab.demo` writes the dataset that ships. `build` writes any other, `story` invents a single clip, `describe`
describes it in sentences and `render` draws it; these three write no file.
"""
