"""When and where: definitions, resources, schedules, sensors, settings and the command line."""
