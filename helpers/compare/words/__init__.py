"""Sentences that say what a picture shows, one module for each topic."""
