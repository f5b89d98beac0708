"""Help that several commands share; what it tells of is imported only where it is used."""

FORMATS_HELP = (
    "text, concise, json, json-lines, sarif, junit, github, gitlab or markdown; FORMAT:FILE writes a file. "
    "Repeatable."
)
