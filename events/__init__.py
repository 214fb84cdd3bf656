"""What flows: one typed record per event, its Spark schema, its topic; and the settings of every program."""
