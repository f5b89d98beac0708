"""What several frameworks do alike."""
