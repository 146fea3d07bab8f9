"""The admin API's wire: bodies that operators send and rows they get. One noun a file."""
