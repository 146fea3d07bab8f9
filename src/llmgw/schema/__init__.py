"""The vocabulary: frozen values that are stored or cross a process.

One noun a file, no behaviour beyond the noun's own.
"""
