"""The settings sections [policies.NAME]: what a policy is, and when its windows are open."""
