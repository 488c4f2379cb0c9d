"""The notifier: sends people a message about pending requests, through their own services. It decides nothing."""
