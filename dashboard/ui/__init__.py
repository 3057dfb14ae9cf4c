"""Streamlit: a folder for the parts of each page, and two for what every page stands on."""
