"""From a request to a plan: live facts, targets, guards, and the document that is confirmed.

Imports safety and the seam to a cluster; nothing here sends.
"""
