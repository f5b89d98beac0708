"""The command line: one file a command. Nothing heavy is imported before it is needed."""
