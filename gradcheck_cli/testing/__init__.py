"""What tests call: `check_gradient` and the plugin of pytest."""
