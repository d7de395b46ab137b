"""Metrics exposition and health endpoints."""
