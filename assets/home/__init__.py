"""The home: the folder with the database, models and settings of an account."""
