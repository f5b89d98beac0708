"""The linter: numerical instability read off the source, which is never imported.

Source is lifted to neutral terms (`lifting`), terms are held to the patterns of the rule pages (`matching`), and
what a term can be at all (`ranges`) tells a guarded expression from one that fails.
"""
