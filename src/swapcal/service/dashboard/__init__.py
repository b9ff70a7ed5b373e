"""The dashboard: pages for people, live figures for their browsers."""
