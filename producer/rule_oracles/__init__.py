"""Which alerts must come out? `docs/rules.md` in the most obvious way, one file per rule.

Slow on purpose and free of cleverness: it is what the Spark jobs are compared with, so it shares no code with them. The
contract's own rule, which holds without a file of rules, is `producer.oracle.overheating_alerts`.

`rule_of` gives a rack's rule, with what the inventory adds filled in (`asked.rule_of`); `lambda _: WeakSignal()` is a
fleet without an inventory. A row with `"either": True` is one about which nothing is promised.
"""

from producer.rule_oracles.asked import rule_of
from producer.rule_oracles.lost_signal import lost_signal_alerts
from producer.rule_oracles.overheating_state import overheating_state_alerts
from producer.rule_oracles.silent_sensor import silent_sensor_alerts
from producer.rule_oracles.site_outage import in_the_order_taken, site_outage_alerts
from producer.rule_oracles.weak_signal import weak_signal_alerts

__all__ = [
    "in_the_order_taken",
    "lost_signal_alerts",
    "overheating_state_alerts",
    "rule_of",
    "silent_sensor_alerts",
    "site_outage_alerts",
    "weak_signal_alerts",
]
