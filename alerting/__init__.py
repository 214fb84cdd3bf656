"""The reader of alerts: each one logged once, whatever was killed or sent again."""
