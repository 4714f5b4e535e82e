"""QEVA as the paper has it: chat models write, filter, answer and judge the questions."""
