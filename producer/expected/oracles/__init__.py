"""The rules of `docs/contract.md` and `docs/rules.md`, one file per question, in plain code.

The Spark jobs are compared with these, so they may share constants (`events`) but no code, and
they prefer clarity to speed. A row with `"either": True` is indeterminate.
"""
