"""What people write of arguments, in plain English: shapes, kinds, domains, trees. Read right or not at all."""
