"""Purges, a room a step: plan, evidence, forecast, jobs, execute, receipt, journal."""
