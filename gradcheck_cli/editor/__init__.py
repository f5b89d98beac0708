"""The linter in an editor, over the language server protocol."""
