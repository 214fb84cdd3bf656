"""State the rules of `docs/contract.md` and `docs/rules.md` in plain code, one file per question.

The Spark jobs are compared with these, so they may share constants (`events`) but no code, and
they prefer clarity to speed. A row with `"either": True` is indeterminate.
"""
