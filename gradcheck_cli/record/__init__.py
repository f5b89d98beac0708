"""`cgcheck record`: a command under watch, and the calls that its processes made."""
