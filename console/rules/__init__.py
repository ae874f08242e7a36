"""What is shown and how, pure: verdicts, rates, charts, masks, readable values, SQL."""
