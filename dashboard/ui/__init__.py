"""Streamlit: the parts of each page, and two folders for what every page stands on."""
