"""The notifier: tells people what waits for them, by whatever service reaches them. It decides nothing."""
