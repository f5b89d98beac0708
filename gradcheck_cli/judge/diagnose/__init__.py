"""Why a formula is wrong: one file a hypothesis."""
