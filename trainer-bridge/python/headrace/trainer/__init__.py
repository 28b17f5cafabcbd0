"""The reference GRPO trainer: batches from the feed in, weights and checkpoints out.

`config` says what it can be told, `rows` turns a batch of any layout into micro-batches of few
shapes, `learner` computes, `loop` is the life of a run. Run
``python -m headrace.trainer --feed ADDRESS``.
"""
