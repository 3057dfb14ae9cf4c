"""What pages, reports and the command line say of findings, in the same words. No Streamlit."""
