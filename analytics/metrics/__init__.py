"""Findings of brokers' metrics and of followers: rates, lags, causes, completeness."""
