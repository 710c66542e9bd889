"""From a question to its evidence chain, and the rule agent."""
