"""What an operator can do and see, one noun a file. The API and the console both go through here."""
