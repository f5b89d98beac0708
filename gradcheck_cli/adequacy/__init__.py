"""What judged inputs could have shown: small changes of primal and rule, and whether each shows."""
