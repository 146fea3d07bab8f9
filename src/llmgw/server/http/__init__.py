"""The admin API: thin handlers over services, typed at the edge."""
