"""When and where work runs: Dagster definitions, resources, schedules and sensors; settings; the command line."""
