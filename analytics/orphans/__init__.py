"""Findings of orphans: candidates, evidence, verdicts by KIP-370's reasons."""
