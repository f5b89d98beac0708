"""The command line's side: targets to tasks, tasks to workers, events to a report."""
