"""What speculation would bring: from the formulas of core.expect and the costs of outrider.cost."""
