"""The `lowwater` command: one file per verb, a contract that other programs call."""
