"""What the user wrote, as text: settings, comments, specs, suppressions; no user code is imported."""
