"""What to write instead: the one change of a rule's text that makes it right, found by trying and verified over the reals.

`correction` is the search: it tries `edits` (small changes that undo what authors do wrong), what `solved` says has to
stand in a place (`equation`, `words`), and what the forward pass should have kept (`keeping`), each by a `trial`.
`refitting` is the search for a rule that refuses its calls. `replacement` and `transplant` are for floats: a stable
function of the library, and its derivative in the rule's own names. `patch` makes an edit of the user's file of any.
"""
