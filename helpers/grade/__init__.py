"""What instructors run: release, grade, student."""
